import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextSeed, TIMES } from '../../../test/seed.ts';
import { createFetch, readRateLimit } from '../src/index.ts';
import { parseDictionary, parseList } from '../src/headers/structured.ts';
import { Provider, soon, START, stopTime, URL_OF_PROVIDER } from './world.ts';

const NAMES = [
  'retry-after',
  'retry-after-ms',
  'ratelimit',
  'ratelimit-policy',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'beta-ratelimit',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'x-ratelimit-reset-after',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-tokens',
  'anthropic-ratelimit-requests-remaining',
  'anthropic-ratelimit-requests-reset',
  'x-shopify-shop-api-call-limit',
  'date',
  'age',
];

const PIECES = [
  '0',
  '1',
  '-1',
  '+5',
  '1.5',
  '1e9',
  '60',
  '2147484',
  '9'.repeat(20),
  '9'.repeat(400),
  'NaN',
  'Infinity',
  '"a"',
  '"',
  '\\',
  ';',
  ';r=',
  ';t=',
  ';r=0',
  ';t=5',
  ';q=5',
  ';w=1',
  ',',
  ', ',
  ' ',
  '\t',
  '=',
  '(',
  ')',
  ':',
  ':YQ==:',
  ':A:',
  '?1',
  '@5',
  '%"x"',
  'limit=1',
  'remaining=0',
  'reset=3',
  'a',
  'é',
  '6m0s',
  '12ms',
  '1h',
  's',
  'Thu, 01 Jan 2026 00:00:30 GMT',
  'Thu Jan  1 00:00:30 2026',
  '2026-01-01T00:00:30Z',
  '1767225630',
  '1767225630500',
  '32/40',
  '40/0',
  '__proto__',
  'constructor',
  '{}',
  '[]',
  'null',
];

const value = fc
  .array(fc.constantFrom(...PIECES), { maxLength: 8 })
  .map((pieces) => pieces.join(''));
const fields = fc.array(fc.tuple(fc.constantFrom(...NAMES), value), { maxLength: 6 });

function headersOf(pairs: readonly (readonly [string, string])[]): Headers {
  const headers = new Headers();
  for (const [name, text] of pairs) headers.append(name, text);
  return headers;
}

describe('header fields of any content', () => {
  it('are read without an error, into waits that are waits', () => {
    fc.assert(
      fc.property(fields, fc.constantFrom(200, 403, 429, 503), (pairs, status) => {
        const reading = readRateLimit({ headers: headersOf(pairs), status }, START);
        const { waitMs, retryAfterMs, limits } = reading;
        for (const ms of [waitMs, retryAfterMs, ...limits.map(({ resetMs }) => resetMs)]) {
          if (ms !== undefined) expect(ms).toBeGreaterThanOrEqual(0);
        }
        for (const { remaining } of limits) {
          if (remaining !== undefined) expect(remaining).toBeGreaterThanOrEqual(0);
        }
        if (status === 200 || status === 403) expect(waitMs).toBeDefined();
      }),
      { seed: nextSeed(), numRuns: 3_000 * TIMES },
    );
  });

  it('are read in a time that grows with their length only', () => {
    const long = 50_000;
    const texts = [
      '"'.repeat(long),
      '('.repeat(long),
      '"a";'.repeat(long),
      ' '.repeat(long),
      '1'.repeat(long),
    ];
    texts.push(
      '1m'.repeat(long),
      ','.repeat(long),
      `"${'\\'.repeat(long)}`,
      `:${'A'.repeat(long)}`,
      'a=('.repeat(long),
    );
    const start = performance.now();
    for (const text of texts) {
      parseList(text);
      parseDictionary(text);
      for (const name of NAMES) readRateLimit({ headers: headersOf([[name, text]]), status: 429 });
    }
    // Some thirty milliseconds; a quadratic reading takes minutes.
    expect(performance.now() - start).toBeLessThan(5_000);
  });

  it('make no client spin, nor wait beyond its bounds', async () => {
    await fc.assert(
      fc.asyncProperty(fields, fc.constantFrom(200, 429, 503), async (pairs, status) => {
        stopTime();
        const provider = new Provider(
          () => new Response('', { status, headers: headersOf(pairs) }),
        );
        const retry = { maxDelayMs: 10_000, maxTotalMs: 25_000, budget: false } as const;
        const fetch = createFetch({ fetch: provider.fetch, retry });
        expect((await soon(fetch(URL_OF_PROVIDER), 60_000)).status).toBe(status);
        const { departures } = provider;
        expect(departures.length).toBeLessThanOrEqual(status === 200 ? 1 : 4);
        for (const [index, ms] of departures.entries()) {
          if (index === 0) continue;
          const gapMs = ms - (departures[index - 1] ?? 0);
          expect(gapMs).toBeGreaterThanOrEqual(50);
          expect(gapMs).toBeLessThanOrEqual(10_003);
        }
        expect(departures.at(-1)).toBeLessThanOrEqual(25_003);
      }),
      { seed: nextSeed(), numRuns: 150 * TIMES },
    );
  });
});
