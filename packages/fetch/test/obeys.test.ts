import { beforeEach, describe, expect, it } from 'vitest';
import { createFetch, outcomeOf } from '../src/index.ts';
import { Diary, pass, Provider, soon, START, stopTime, URL_OF_PROVIDER } from './world.ts';

beforeEach(stopTime);

const httpDate = (ms: number): string => new Date(ms).toUTCString();

/** When the second request is sent, with the least and the greatest draw of the jitter. */
async function secondDepartures(
  headers: Readonly<Record<string, string>>,
  status = 429,
): Promise<[least: number, most: number]> {
  const departures = [];
  for (const draw of [0, 0.999_999]) {
    stopTime();
    const provider = Provider.refusing(1, headers, status);
    const fetch = createFetch({ fetch: provider.fetch, retry: { random: () => draw } });
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(200);
    expect(provider.departures).toHaveLength(2);
    departures.push(provider.departures[1] ?? NaN);
  }
  const [least = NaN, most = NaN] = departures;
  return [least, most];
}

describe('the wait that a server names', () => {
  it.each([
    ['seconds', { 'Retry-After': '2' }, 2_000],
    ['decimal seconds', { 'Retry-After': '2.5' }, 2_500],
    ['milliseconds', { 'retry-after-ms': '1500', 'Retry-After': '2' }, 1_500],
    ['a date, on our clock', { 'Retry-After': httpDate(START + 3_000) }, 3_000],
    [
      'a date, by a clock 30 s ahead',
      { Date: httpDate(START + 30_000), 'Retry-After': httpDate(START + 33_000) },
      3_000,
    ],
    [
      'a date, by a clock a day behind',
      { Date: httpDate(START - 86_400_000), 'Retry-After': httpDate(START - 86_397_000) },
      3_000,
    ],
    ['the current draft', { RateLimit: '"a";r=0;t=4, "b";r=7;t=60' }, 4_000],
    ['two limits that are used up', { RateLimit: '"a";r=0;t=4, "b";r=0;t=6' }, 6_000],
    ['draft -07', { RateLimit: 'limit=10, remaining=0, reset=5' }, 5_000],
    [
      'the draft before',
      { 'RateLimit-Limit': '10', 'RateLimit-Remaining': '0', 'RateLimit-Reset': '5' },
      5_000,
    ],
    [
      'a moment',
      { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': `${START / 1_000 + 5}` },
      5_000,
    ],
    [
      'a moment, by a clock an hour ahead',
      {
        Date: httpDate(START + 3_600_000),
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': `${START / 1_000 + 3_605}`,
      },
      5_000,
    ],
    [
      'a duration as OpenAI writes it',
      { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '1m1.5s' },
      // Beyond the longest delay: see below.
      undefined,
    ],
    [
      'a date as Anthropic writes it',
      {
        'anthropic-ratelimit-tokens-remaining': '0',
        'anthropic-ratelimit-tokens-reset': '2026-01-01T00:00:07Z',
      },
      7_000,
    ],
    ['Retry-After before all others', { 'Retry-After': '1', RateLimit: '"a";r=0;t=9' }, 1_000],
    [
      'RateLimit where Retry-After is malformed',
      { 'Retry-After': '-5', RateLimit: '"a";r=0;t=2' },
      2_000,
    ],
  ])('%s', async (_name, headers, waitMs) => {
    if (waitMs === undefined) {
      const provider = Provider.refusing(1, headers);
      const response = await createFetch({ fetch: provider.fetch })(URL_OF_PROVIDER);
      expect(outcomeOf(response)).toEqual({ attempts: 1, reason: 'delay', serverMs: 61_500 });
      return;
    }
    const [least, most] = await secondDepartures(headers);
    expect(least).toBeGreaterThanOrEqual(waitMs);
    expect(least).toBeLessThanOrEqual(waitMs + 3);
    // Jitter comes on top, and stays below a half of it, or the first backoff.
    expect(most).toBeGreaterThan(waitMs + 200);
    expect(most).toBeLessThan(waitMs + Math.max(503, waitMs / 2));
  });

  it('on 503 counts as well', async () => {
    const [least] = await secondDepartures({ 'Retry-After': '2' }, 503);
    expect(least).toBeGreaterThanOrEqual(2_000);
  });

  it.each(['0', '0.0', httpDate(START - 3_000), httpDate(START)])(
    'of nothing, as in %s, is no reason to hurry',
    async (text) => {
      const [least, most] = await secondDepartures({ 'Retry-After': text });
      expect(least).toBeGreaterThanOrEqual(50);
      expect(most).toBeLessThanOrEqual(502);
    },
  );
});

describe('a wait beyond the bound', () => {
  const inSeconds = ['61', '2147484', '9999999999', '9'.repeat(400), '86400'];

  it.each([...inSeconds, httpDate(START + 61_000), 'Fri, 31 Dec 2099 23:59:59 GMT'])(
    '%s is not waited for, nor cut short',
    async (text) => {
      const provider = Provider.refusing(Infinity, { 'Retry-After': text });
      const diary = new Diary();
      const response = await createFetch({ fetch: provider.fetch, ...diary.observers })(
        URL_OF_PROVIDER,
      );
      expect(response.status).toBe(429);
      expect(await response.text()).toBe('refused');
      expect(outcomeOf(response)).toMatchObject({ attempts: 1, reason: 'delay' });
      expect(outcomeOf(response)?.serverMs).toBeGreaterThanOrEqual(61_000);
      expect(diary.givenUp).toMatchObject([{ reason: 'delay', status: 429, attempt: 1 }]);
      expect(provider.departures).toEqual([0]);
    },
  );

  it('begins above it: exactly the bound is waited for', async () => {
    const [least, most] = await secondDepartures({ 'Retry-After': '60' });
    expect(least).toBeGreaterThanOrEqual(60_000);
    expect(most).toBeLessThanOrEqual(60_003);
  });

  it('is waited for with a longer one, though a timer takes only 24.8 days', async () => {
    const days = 30;
    const provider = Provider.refusing(1, { 'Retry-After': `${days * 86_400}` });
    const most = { maxDelayMs: Infinity, maxTotalMs: Infinity, random: () => 0 };
    const answer = createFetch({ fetch: provider.fetch, retry: most })(URL_OF_PROVIDER);
    await pass(days * 86_400_000 - 1);
    expect(provider.departures).toEqual([0]);
    await pass(10);
    expect((await answer).status).toBe(200);
  });
});

describe('headers that are malformed', () => {
  it.each([
    ['-5'],
    ['NaN'],
    ['soon'],
    ['30s'],
    ['1e9'],
    ['0x10'],
    ['30, 60'],
    ['Infinity'],
    ['Mon, 99 Jan 2026 00:00:00 GMT'],
    ['Thu, 01 Jan 2026 25:00:00 GMT'],
    ['2026-01-01'],
    ['٣'],
  ])('Retry-After: %s is as good as none', async (text) => {
    const headers = { 'Retry-After': Buffer.from(text, 'utf8').toString('latin1') };
    const [least, most] = await secondDepartures(headers);
    expect(least).toBeGreaterThanOrEqual(50);
    expect(most).toBeLessThanOrEqual(502);
  });
});

describe('callers who are refused together', () => {
  it.each([
    ['told to wait', { 'Retry-After': '5' }, 5_000, 7_500],
    ['told nothing', {}, 50, 502],
  ])('do not come back together when %s', async (_name, headers, earliest, latest) => {
    const provider = Provider.refusing(200, headers);
    const fetch = createFetch({ fetch: provider.fetch, retry: { budget: false } });
    const calls = Array.from({ length: 200 }, () => fetch(URL_OF_PROVIDER));
    await soon(Promise.all(calls));
    const returned = provider.departures.slice(200);
    expect(returned).toHaveLength(200);
    expect(Math.min(...returned)).toBeGreaterThanOrEqual(earliest);
    expect(Math.max(...returned)).toBeLessThanOrEqual(latest);
    const slots = new Set(returned.map((ms) => Math.floor(ms / 10)));
    // Of 45 there are in half a second, and of 175 in what is added to five seconds.
    expect(slots.size).toBeGreaterThanOrEqual(earliest === 5_000 ? 150 : 40);
  });
});
