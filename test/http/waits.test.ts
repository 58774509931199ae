import {
  type Decision,
  fixedWindow,
  gcra,
  leakyBucket,
  type PolicyInput,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppRequest } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const MICROSECOND = 0.001;

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  test.each<[string, PolicyInput, admitted: number]>([
    ['a token bucket', tokenBucket({ capacity: 3, rate: 7, per: '10s' }), 3],
    ['GCRA', gcra({ rate: 3, per: '1s', burst: 2 }), 2],
    ['a fixed window', fixedWindow({ limit: 3, window: '1500ms' }), 3],
    ['a spread fixed window', fixedWindow({ limit: 3, window: '90s', spread: true }), 3],
    ['a sliding window', slidingWindow({ limit: 3, window: '7s' }), 3],
    ['a sliding log', slidingLog({ limit: 3, window: '2500ms' }), 3],
    // The first leaves at once and the places behind it would be held, which the next test is about.
    ['a leaky bucket', leakyBucket({ capacity: 1, rate: 1, per: '1300ms' }), 1],
  ])('admits exactly after the wait that %s says', async (_, policy, admitted) => {
    const clock = new Clock();
    const refusals: Decision[] = [];
    const { url } = await serve({
      gates: [
        { store: clock.store, policy, onReject: (_request, decision) => refusals.push(decision) },
      ],
    });
    let at = 0;
    for (let i = 0; i < admitted; i++) {
      at = i * 123.457;
      clock.at(at);
      expect((await ask(url)).status).toBe(200);
    }
    const refusal = await ask(url);
    expect(refusal.status).toBe(429);
    const waitMs = refusals[0]?.retryAfterMs ?? 0;
    const seconds = Number(refusal.headers.get('retry-after'));
    expect(seconds).toBe(Math.ceil(waitMs / 1_000));
    clock.at(at + waitMs - MICROSECOND);
    expect((await ask(url)).status).toBe(429);
    clock.at(at + seconds * 1_000);
    expect((await ask(url)).status).toBe(200);

    while ((await ask(url)).status === 200);
    clock.pass(refusals.at(-1)?.retryAfterMs ?? 0);
    expect((await ask(url)).status).toBe(200);
  });

  it('rounds a wait up, never down', async () => {
    const clock = new Clock();
    const policy = tokenBucket({ capacity: 1, rate: 1, per: 1_500 });
    const { url } = await serve({ gates: [{ store: clock.store, policy }] });
    await ask(url);
    clock.at(200);
    expect((await ask(url)).headers.get('retry-after')).toBe('2');
    clock.at(2_200);
    expect((await ask(url)).status).toBe(200);
  });

  it('tells the time that is left, not the whole window', async () => {
    const clock = new Clock();
    const policy = fixedWindow({ limit: 1, window: '60s' });
    const { url } = await serve({ gates: [{ store: clock.store, policy }] });
    await ask(url);
    const waits: (string | null)[] = [];
    for (const ms of [5_000, 30_000, 59_200, 59_999.999]) {
      clock.at(ms);
      waits.push((await ask(url)).headers.get('retry-after'));
    }
    expect(waits).toEqual(['55', '30', '1', '1']);
  });

  it('never tells a client to come back in 0 seconds', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 1, window: '100ms' }) }],
    });
    await ask(url);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '1']);
  });

  describe('a cost above the quota', () => {
    const cost = (request: AppRequest): number => Number(request.headers['x-cost']);
    const costing = (units: number): RequestInit => ({ headers: { 'x-cost': `${units}` } });

    test.each<[string, PolicyInput]>([
      ['token bucket', tokenBucket({ capacity: 10, rate: 1, per: '1s' })],
      ['fixed window', fixedWindow({ limit: 10, window: '60s' })],
      ['sliding window', slidingWindow({ limit: 10, window: '60s' })],
      ['sliding log', slidingLog({ limit: 10, window: '60s' })],
    ])('has no wait in a %s, and takes nothing', async (_, policy) => {
      const { store } = new Clock();
      const { url } = await serve({
        gates: [{ store, limits: [{ name: 'units', policy, cost }] }],
      });
      const refusal = await ask(url, costing(11));
      expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, null]);
      expect((await ask(url, costing(10))).status).toBe(200);
    });

    it('has no wait when the route asks for it', async () => {
      const { store } = new Clock();
      const policy = fixedWindow({ limit: 10, window: '60s' });
      const { url } = await serve({
        gates: [{ store, policy }],
        routes: [{ path: '/', rateLimit: { cost } }],
      });
      const refusal = await ask(url, costing(11));
      expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, null]);
      expect((await ask(url, costing(10))).status).toBe(200);
    });
  });

  describe('a limit of 0', () => {
    test.each<[string, PolicyInput]>([
      ['token bucket', tokenBucket({ capacity: 0, rate: 1, per: '1s' })],
      ['fixed window', fixedWindow({ limit: 0, window: '60s' })],
      ['sliding window', slidingWindow({ limit: 0, window: '60s' })],
      ['sliding log', slidingLog({ limit: 0, window: '60s' })],
      ['leaky bucket', leakyBucket({ capacity: 0, rate: 1, per: '1s' })],
    ])('refuses everything in a %s', async (_, policy) => {
      const { store } = new Clock();
      const { url } = await serve({ gates: [{ store, policy }] });
      const refusal = await ask(url);
      expect(refusal.status).toBe(429);
      expect(refusal.headers.get('retry-after')).toBeNull();
      expect([...refusal.headers].join()).not.toMatch(/NaN|Infinity|undefined/);
    });

    it('is for the callers whose plan says so', async () => {
      const { store } = new Clock();
      const none = fixedWindow({ limit: 0, window: '60s' });
      const some = fixedWindow({ limit: 5, window: '60s' });
      const plan = {
        name: 'plan',
        by: ({ headers }: AppRequest) => String(headers['x-user']),
        policy: ({ headers }: AppRequest) => (headers['x-user'] === 'free' ? none : some),
      };
      const { url } = await serve({ gates: [{ store, limits: [plan] }] });
      expect(await inTurn(url, 2, { headers: { 'x-user': 'free' } })).toEqual([429, 429]);
      expect(await inTurn(url, 6, { headers: { 'x-user': 'paid' } })).toEqual([
        200, 200, 200, 200, 200, 429,
      ]);
    });
  });
});
