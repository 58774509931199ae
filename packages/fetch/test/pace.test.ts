import { createLimiter, memoryStore, slidingLog, tokenBucket } from '@tollgate/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { createFetch } from '../src/index.ts';
import { pass, Provider, soon, START, stopTime, URL_OF_PROVIDER } from './world.ts';

beforeEach(stopTime);

const clock = (): number => Math.round(Date.now() * 1_000);

/** A provider with a limit of its own, which it tells of in every answer, after `latencyMs`. */
function limited(policy: ReturnType<typeof slidingLog | typeof tokenBucket>, latencyMs = 20) {
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [{ name: 'own', policy }],
  });
  let refusals = 0;
  const provider = new Provider(async () => {
    await new Promise((resolve) => setTimeout(resolve, latencyMs));
    const { allowed, remaining, binding } = limiter.consume({ own: 'client' });
    if (!allowed) refusals++;
    const t = Math.max(1, Math.ceil((binding?.nextAfterMs ?? 0) / 1_000));
    const headers = { RateLimit: `"own";r=${remaining};t=${t}` };
    return new Response('', { status: allowed ? 200 : 429, headers });
  });
  return { provider, refused: () => refusals };
}

describe('with pace', () => {
  it('nobody sends more than remains, however many call at once', async () => {
    const { provider, refused } = limited(slidingLog({ limit: 10, window: '5s' }));
    const fetch = createFetch({ fetch: provider.fetch, pace: true });
    await soon(fetch(URL_OF_PROVIDER));
    const answers = await soon(
      Promise.all(Array.from({ length: 49 }, () => fetch(URL_OF_PROVIDER))),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 49 }, () => 200));
    expect(refused()).toBe(0);
    expect(provider.departures).toHaveLength(50);
    // Fifty at ten in five seconds: four windows at the least.
    expect(provider.departures.at(-1)).toBeGreaterThanOrEqual(20_000);
    expect(provider.departures.at(-1)).toBeLessThanOrEqual(40_000);
  });

  it('a bucket that fills one by one is asked by one at a time', async () => {
    const { provider, refused } = limited(tokenBucket({ capacity: 5, rate: 1, per: '1s' }));
    const fetch = createFetch({ fetch: provider.fetch, pace: true });
    await soon(fetch(URL_OF_PROVIDER));
    await soon(Promise.all(Array.from({ length: 20 }, () => fetch(URL_OF_PROVIDER))));
    expect(refused()).toBe(0);
  });

  it('a refusal of one caller holds all of the same key, and no other', async () => {
    const provider = new Provider((request, nth) =>
      nth === 0 || request.headers.get('x-key') === 'refused'
        ? new Response('', { status: 429, headers: { 'Retry-After': '10' } })
        : new Response('served'),
    );
    const limiter = createLimiter({
      store: memoryStore({ clock }),
      limits: [{ name: 'api', policy: tokenBucket({ capacity: 100, rate: 100, per: '1s' }) }],
    });
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys: ({ headers }) => ({ api: headers.get('x-account') ?? 'none' }),
      pace: true,
    });
    const as = (account: string): Promise<Response> =>
      fetch(URL_OF_PROVIDER, { headers: { 'X-Account': account } });
    const calls = [as('ada')];
    await pass(1);
    calls.push(as('ada'), as('ada'), as('bob'));
    await pass(1);
    expect(provider.departures).toHaveLength(2);
    await soon(Promise.all(calls));
    const [, bob = NaN, ...others] = provider.departures;
    expect(bob).toBeLessThan(10);
    expect(Math.min(...others)).toBeGreaterThanOrEqual(10_000);
    // Nothing was charged for waiting.
    await pass(10_000);
    expect(limiter.peek({ api: 'ada' }).remaining).toBe(100);
  });

  it('a refusal that comes while a caller waits for the limiter holds that caller too', async () => {
    const provider = new Provider(async (_request, nth) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return nth === 0
        ? new Response('', { status: 429, headers: { 'Retry-After': '10' } })
        : new Response('served');
    });
    const limiter = createLimiter({
      store: memoryStore({ clock }),
      limits: [{ name: 'api', policy: tokenBucket({ capacity: 1, rate: 2, per: '1s' }) }],
    });
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' }, pace: true });
    await soon(Promise.all([fetch(URL_OF_PROVIDER), fetch(URL_OF_PROVIDER)]));
    expect(provider.departures).toHaveLength(3);
    expect(provider.departures[1]).toBeGreaterThanOrEqual(10_300);
  });

  it('goes on when the request that asked after a hold fails', async () => {
    const provider = new Provider((_request, nth) => {
      if (nth === 0) return new Response('', { headers: { RateLimit: '"a";r=0;t=3' } });
      if (nth === 1) throw new TypeError('fetch failed');
      return new Response('served');
    });
    const fetch = createFetch({ fetch: provider.fetch, pace: true });
    await soon(fetch(URL_OF_PROVIDER));
    const calls = Array.from({ length: 5 }, () => fetch(URL_OF_PROVIDER));
    const ends = await soon(Promise.allSettled(calls));
    expect(ends.map(({ status }) => status)).toEqual([
      'rejected',
      ...Array.from({ length: 4 }, () => 'fulfilled'),
    ]);
  });

  it('rejects at once when the hold is longer than the caller will wait', async () => {
    const provider = Provider.refusing(Infinity, { 'Retry-After': '600' });
    const fetch = createFetch({ fetch: provider.fetch, pace: true, maxWaitMs: 5_000 });
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(429);
    await expect(fetch(URL_OF_PROVIDER)).rejects.toMatchObject({ code: 'TOLLGATE_WAIT' });
    expect(provider.departures).toEqual([0]);
  });

  it('rejects those behind others when their time is over', async () => {
    const provider = Provider.refusing(1, { RateLimit: '"a";r=0;t=20' }, 200);
    const fetch = createFetch({ fetch: provider.fetch, pace: true, maxWaitMs: 30_000 });
    const hasty = createFetch({ fetch: provider.fetch, pace: true, maxWaitMs: 100 });
    await soon(fetch(URL_OF_PROVIDER));
    await soon(hasty(URL_OF_PROVIDER));
    const patient = fetch(URL_OF_PROVIDER);
    expect((await soon(patient)).status).toBe(200);
  });

  it.each([
    ['an absurd reset', { RateLimit: '"a";r=0;t=999999999999999' }],
    ['an absurd moment', { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '9'.repeat(300) }],
    ['an absurd wait', { 'Retry-After': '9'.repeat(400) }],
  ])('%s locks nobody out for good: one asks again after an hour', async (_name, headers) => {
    const provider = Provider.refusing(1, headers, 200);
    const patience = { pace: true, maxWaitMs: 2 * 3_600_000 };
    const fetch = createFetch({ fetch: provider.fetch, ...patience });
    await soon(fetch(URL_OF_PROVIDER));
    const calls = Array.from({ length: 3 }, () => fetch(URL_OF_PROVIDER));
    await pass(3_599_000);
    expect(provider.departures).toHaveLength(1);
    await pass(3_000);
    expect(provider.departures).toHaveLength(4);
    await Promise.all(calls);
  });

  it.each([
    ['malformed', { RateLimit: '"a";r=0;t=-5' }],
    [
      'a reset in the past',
      { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': `${START / 1_000 - 60}` },
    ],
    ['no reset', { 'X-RateLimit-Remaining': '0' }],
    ['of slots, which nobody knows the end of', { RateLimit: '"a";r=0' }],
    ['from a cache', { Age: '30', RateLimit: '"a";r=0;t=50' }],
    [
      'of tokens, which are left',
      { 'x-ratelimit-remaining-tokens': '1', 'x-ratelimit-reset-tokens': '6m0s' },
    ],
  ])('what is %s holds nobody', async (_name, headers) => {
    const provider = Provider.refusing(Infinity, headers, 200);
    const fetch = createFetch({ fetch: provider.fetch, pace: true });
    for (let i = 0; i < 10; i++) await soon(fetch(URL_OF_PROVIDER));
    expect(provider.departures.at(-1)).toBeLessThan(1_000);
  });

  it('without it every caller is on their own', async () => {
    const provider = Provider.refusing(1, { RateLimit: '"a";r=0;t=50' }, 200);
    const fetch = createFetch({ fetch: provider.fetch });
    for (let i = 0; i < 3; i++) await fetch(URL_OF_PROVIDER);
    expect(provider.departures).toEqual([0, 0, 0]);
  });
});
