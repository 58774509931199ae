import { beforeEach, describe, expect, it } from 'vitest';
import { createFetch, type GiveUpReason, outcomeOf, type RetryOptions } from '../src/index.ts';
import { Diary, pass, Provider, soon, stopTime, URL_OF_PROVIDER } from './world.ts';

beforeEach(stopTime);

/** How many requests are sent to a provider that always gives this answer. */
async function attempts(
  status: number,
  init: RequestInit = {},
  retry: RetryOptions | false = {},
): Promise<{ sent: number; reason: GiveUpReason | undefined; response: Response }> {
  const provider = Provider.refusing(Infinity, {}, status);
  const fetch = createFetch({ fetch: provider.fetch, retry });
  const response = await soon(fetch(URL_OF_PROVIDER, init));
  return { sent: provider.departures.length, reason: outcomeOf(response)?.reason, response };
}

describe('what is retried', () => {
  it.each([
    ['GET', 429, 4, 'retries'],
    ['GET', 503, 4, 'retries'],
    ['PUT', 503, 4, 'retries'],
    ['DELETE', 503, 4, 'retries'],
    ['HEAD', 503, 4, 'retries'],
    ['POST', 429, 4, 'retries'],
    ['PATCH', 429, 4, 'retries'],
    ['POST', 503, 1, 'method'],
    ['PATCH', 503, 1, 'method'],
    ['GET', 200, 1, undefined],
    ['GET', 400, 1, undefined],
    ['GET', 401, 1, undefined],
    ['GET', 403, 1, undefined],
    ['GET', 404, 1, undefined],
    ['GET', 500, 1, undefined],
    ['GET', 502, 1, undefined],
    ['GET', 504, 1, undefined],
  ] as const)('%s on %i: %i requests', async (method, status, sent, reason) => {
    expect(await attempts(status, { method })).toMatchObject({ sent, reason });
  });

  it('a POST on 503 with an idempotency key, or when allowed', async () => {
    const headers = { 'Idempotency-Key': 'k-1' };
    expect((await attempts(503, { method: 'POST', headers })).sent).toBe(4);
    expect((await attempts(503, { method: 'post' }, { methods: ['POST'] })).sent).toBe(4);
  });

  it('other statuses when asked, and nothing when switched off', async () => {
    expect((await attempts(502, {}, { statuses: [502] })).sent).toBe(4);
    expect((await attempts(429, {}, { statuses: [502] })).sent).toBe(1);
    expect(await attempts(429, {}, false)).toMatchObject({ sent: 1, reason: undefined });
    expect(await attempts(429, {}, { retries: 0 })).toMatchObject({ sent: 1, reason: 'retries' });
  });

  it('the last response is returned, with its body', async () => {
    const { response } = await attempts(503);
    expect(response.status).toBe(503);
    expect(await response.text()).toBe('refused');
  });

  it('twice when a caller has a loop of its own', async () => {
    const provider = Provider.refusing(Infinity, { 'Retry-After': '3' });
    const fetch = createFetch({ fetch: provider.fetch });
    for (let i = 0; i < 2; i++) await soon(fetch(URL_OF_PROVIDER));
    const { departures } = provider;
    expect(departures).toHaveLength(8);
    const gaps = departures.slice(1).map((ms, index) => ms - (departures[index] ?? 0));
    // The caller's own second call follows at once, as nothing holds it: `pace` would.
    gaps.splice(3, 1);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(3_000);
  });
});

describe('a request without an answer', () => {
  const failing = (times: number): Provider =>
    new Provider((_request, nth) => {
      if (nth < times) throw new TypeError('fetch failed');
      return new Response('served');
    });

  it('is retried when asked, and if its method allows', async () => {
    const provider = failing(2);
    const fetch = createFetch({ fetch: provider.fetch, retry: { networkErrors: true } });
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(200);
    expect(provider.departures).toHaveLength(3);
  });

  it.each([
    ['without being asked', {}, {}, []],
    ['for a POST', { method: 'POST' }, { networkErrors: true }, ['method']],
    ['once retries are used up', {}, { networkErrors: true, retries: 0 }, ['retries']],
  ])('rejects as the platform does %s', async (_name, init, retry, reasons) => {
    const provider = failing(Infinity);
    const diary = new Diary();
    const fetch = createFetch({ fetch: provider.fetch, retry, ...diary.observers });
    await expect(soon(fetch(URL_OF_PROVIDER, init))).rejects.toThrow('fetch failed');
    expect(provider.departures).toHaveLength(1);
    expect(diary.givenUp.map(({ reason }) => reason)).toEqual(reasons);
  });
});

describe('the bounds', () => {
  it('backs off exponentially with full jitter, from a tenth of the base on', async () => {
    const waits: number[][] = [];
    for (const draw of [0, 0.5, 0.999_999]) {
      stopTime();
      const provider = Provider.refusing(Infinity, {}, 503);
      const retry = { retries: 5, baseMs: 100, maxBackoffMs: 1_000, random: () => draw };
      const diary = new Diary();
      await soon(
        createFetch({ fetch: provider.fetch, retry, ...diary.observers })(URL_OF_PROVIDER),
      );
      waits.push(diary.retries.map(({ delayMs }) => Math.round(delayMs)));
    }
    expect(waits).toEqual([
      [10, 10, 10, 10, 10],
      [55, 105, 205, 405, 505],
      [100, 200, 400, 800, 1_000],
    ]);
  });

  it('starts no attempt later than maxTotalMs', async () => {
    const provider = Provider.refusing(Infinity, { 'Retry-After': '4' });
    const diary = new Diary();
    const retry = { retries: 100, maxTotalMs: 10_000, random: () => 0 };
    const fetch = createFetch({ fetch: provider.fetch, retry, ...diary.observers });
    const response = await soon(fetch(URL_OF_PROVIDER));
    expect(outcomeOf(response)).toEqual({ attempts: 3, reason: 'total', serverMs: 4_000 });
    expect(provider.departures.at(-1)).toBeLessThanOrEqual(10_000);
  });

  it('tells of every retry, and why there is no other', async () => {
    const provider = Provider.refusing(Infinity, { 'Retry-After': '1' });
    const diary = new Diary();
    const fetch = createFetch({ fetch: provider.fetch, retry: { retries: 2 }, ...diary.observers });
    await soon(fetch(URL_OF_PROVIDER));
    const same = { method: 'GET', url: URL_OF_PROVIDER, status: 429, serverMs: 1_000 };
    expect(diary.retries).toMatchObject([
      { ...same, attempt: 1 },
      { ...same, attempt: 2 },
    ]);
    expect(diary.givenUp).toMatchObject([{ ...same, attempt: 3, reason: 'retries' }]);
  });

  it('is not disturbed by an observer that throws', async () => {
    const provider = Provider.refusing(1, {});
    const diary = new Diary();
    const fetch = createFetch({
      fetch: provider.fetch,
      ...diary.observers,
      onRetry() {
        throw new Error('broken');
      },
    });
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(200);
    expect(diary.logged).toEqual(['an observer of retries failed']);
  });
});

describe('the retry budget', () => {
  /** Requests sent for calls to a provider that is down, one every so many milliseconds. */
  async function outage(
    calls: number,
    everyMs: number,
    retry: RetryOptions,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<number> {
    const provider = Provider.refusing(Infinity, headers, 503);
    const fetch = createFetch({ fetch: provider.fetch, retry });
    const answers: Promise<Response>[] = [];
    for (let i = 0; i < calls; i++) {
      answers.push(fetch(URL_OF_PROVIDER));
      await pass(everyMs);
    }
    await soon(Promise.all(answers));
    return provider.departures.length;
  }

  it('keeps an outage from becoming a storm', async () => {
    const sent = await outage(500, 10, {});
    expect(sent).toBeGreaterThan(500);
    expect(sent).toBeLessThanOrEqual(500 * 1.2 + 10 * 3);
  });

  it('counts refusals with a time of the server as well, on 503', async () => {
    expect(await outage(500, 0, {}, { 'Retry-After': '1' })).toBeLessThanOrEqual(500 * 1.2 + 10);
  });

  it('can be set, and lifted', async () => {
    expect(await outage(100, 0, { budget: { share: 0, minimum: 0 } })).toBe(100);
    expect(await outage(100, 0, { budget: { share: 1, minimum: 0 } })).toBe(200);
    expect(await outage(100, 0, { budget: false })).toBe(400);
  });

  it('leaves a few retries to those who send little, again and again', async () => {
    // One call a second: each may be retried three times, the budget allows one a second and a fifth.
    const sent = await outage(60, 1_000, {});
    expect(sent).toBeGreaterThanOrEqual(60 + 60);
    expect(sent).toBeLessThanOrEqual(60 * 1.2 + 7 * 10);
  });

  it('is of one origin: what others send pays for nothing there', async () => {
    const provider = Provider.refusing(Infinity, {}, 503);
    const retry = { budget: { share: 0.5, minimum: 0 } };
    const fetch = createFetch({ fetch: provider.fetch, retry });
    const of = (host: string): Promise<Response>[] =>
      Array.from({ length: 10 }, () => fetch(`https://${host}.example/`));
    const [a, b] = [of('a'), of('b')];
    await soon(Promise.all([...a, ...b]));
    const retried = async (calls: readonly Promise<Response>[]): Promise<number> => {
      const responses = await Promise.all(calls);
      return responses.reduce((sum, each) => sum + (outcomeOf(each)?.attempts ?? 0) - 1, 0);
    };
    expect([await retried(a), await retried(b)]).toEqual([5, 5]);
  });

  it('asks nothing of a client that a server paces itself', async () => {
    const provider = Provider.refusing(300, { 'Retry-After': '1' });
    const fetch = createFetch({ fetch: provider.fetch });
    const answers = await soon(
      Promise.all(Array.from({ length: 300 }, () => fetch(URL_OF_PROVIDER))),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 300 }, () => 200));
  });
});
