import { describe, expect, it, test } from 'vitest';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import {
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

const DAY_MS = 86_400_000;

function rig(policy: Policy): { clock: HandClock; limiter: Limiter<MemoryStore> } {
  const clock = new HandClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, limiter: createLimiter({ store, limits: [{ name: 'plan', policy }] }) };
}

const key = { plan: 'acme' };

describe.each([...COUNTING, ['concurrency', (limit: number) => concurrency({ limit })] as const])(
  'a quota of 0 in a %s',
  (_, make) => {
    it('refuses every cost, for ever', () => {
      const { limiter, clock } = rig(make(0));
      const refusal = { allowed: false, reason: 'limited', limit: 0, remaining: 0, delayMs: 0 };
      for (const [cost, step] of [
        [1, 0],
        [0, 1],
        [1, 60_000],
        [1, 400 * DAY_MS],
      ] as const) {
        clock.advance(step);
        for (const call of ['peek', 'consume'] as const) {
          const decision = limiter[call](key, { cost: { plan: cost } });
          expect(decision).toMatchObject(refusal);
          expect(decision.retryAfterMs).toBe(Infinity);
          expect(decision.resetAfterMs).toBe(0);
          expect(decision.verdicts[0]).toMatchObject({ nextAfterMs: 0, limit: 0, remaining: 0 });
        }
      }
      expect(limiter.store.size).toBe(0);
    });

    it('does not make a wait', async () => {
      const { limiter } = rig(make(0));
      await expect(limiter.wait(key)).rejects.toThrow(/never be admitted/);
    });

    it('of one plan leaves the others alone', () => {
      const { limiter } = rig(make(5));
      const none = { policies: { plan: make(0) } };
      expect(limiter.consume({ plan: 'free' }, none).allowed).toBe(false);
      expect(limiter.consume(key).remaining).toBe(4);
      expect(limiter.consume(key, none)).toMatchObject({ allowed: false, retryAfterMs: Infinity });
      expect(limiter.consume(key).remaining).toBe(3);
    });
  },
);

describe('a month of 123,457 units', () => {
  const month = 30 * DAY_MS;
  const quota = 123_457;

  it('comes back unit by unit, to the millisecond', () => {
    const { limiter, clock } = rig(tokenBucket({ capacity: quota, rate: quota, per: '30d' }));
    limiter.consume(key, { cost: quota });
    // The nth unit is there after n / quota of the month, and not before.
    for (const n of [1, 2, 3, 1_000, 99_991, quota]) {
      const { retryAfterMs } = limiter.peek(key, { cost: n });
      expect(retryAfterMs).toBeGreaterThanOrEqual((n * month) / quota);
      expect(retryAfterMs).toBeLessThan((n * month) / quota + 1);
    }
    clock.advance(month - 0.001);
    expect(limiter.peek(key).remaining).toBe(quota - 1);
    clock.advance(0.001);
    expect(limiter.peek(key)).toMatchObject({ remaining: quota, resetAfterMs: 0 });
  });

  it('loses nothing to those who ask for it one by one', () => {
    const { limiter, clock } = rig(gcra({ burst: 1, rate: quota, per: '30d' }));
    const start = clock.us;
    for (let n = 0; n < quota / 10; n++) {
      clock.advance(limiter.peek(key).retryAfterMs);
      expect(limiter.consume(key).allowed).toBe(true);
    }
    const ideal = (month / 10) * 1_000;
    expect(clock.us - start).toBeLessThanOrEqual(ideal + 1_000);
    expect(clock.us - start).toBeGreaterThan(ideal - month / quota / 1e-3 - 1_000);
  });

  test.each([
    ['fixed window', fixedWindow({ limit: quota, window: '30d' })],
    ['sliding window', slidingWindow({ limit: quota, window: '30d' })],
  ])('in a %s', (_, policy) => {
    const { limiter } = rig(policy);
    expect(limiter.consume(key, { cost: quota - 1 }).remaining).toBe(1);
    expect(limiter.consume(key).remaining).toBe(0);
    const refused = limiter.consume(key);
    expect(refused.allowed).toBe(false);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(2 * month);
  });
});

describe('10^9 units a month', () => {
  const quota = 1e9;

  test.each([
    ['token bucket', tokenBucket({ capacity: quota, rate: quota, per: '30d' })],
    ['leaky bucket', leakyBucket({ capacity: quota, rate: quota, per: '30d' })],
    ['fixed window', fixedWindow({ limit: quota, window: '30d' })],
    ['sliding window', slidingWindow({ limit: quota, window: '30d' })],
  ])('are counted to the last one in a %s', (_, policy) => {
    const { limiter, clock } = rig(policy);
    expect(limiter.consume(key, { cost: quota - 2 }).remaining).toBe(2);
    expect(limiter.consume(key, { cost: 2 }).remaining).toBe(0);
    const refused = limiter.consume(key, { cost: 386 });
    expect(refused.allowed).toBe(false);
    clock.advance(refused.retryAfterMs - 0.001);
    expect(limiter.peek(key, { cost: 386 }).allowed).toBe(false);
    clock.advance(0.001);
    expect(limiter.consume(key, { cost: 386 }).allowed).toBe(true);
  });

  it('flow back at 386 a second', () => {
    const { limiter, clock } = rig(tokenBucket({ capacity: quota, rate: quota, per: '30d' }));
    limiter.consume(key, { cost: quota });
    clock.advance(1_000);
    expect(limiter.peek(key).remaining).toBe(385);
    clock.advance(6_000);
    expect(limiter.peek(key).remaining).toBe(2_700);
    clock.advance(20 * DAY_MS - 7_000);
    expect(limiter.peek(key).remaining).toBe(666_666_666);
  });
});

describe('windows longer than a timer can be, on the real clock,', () => {
  test.each([
    ['30d', slidingLog({ limit: 3, window: '30d' }), 30],
    ['365d', slidingLog({ limit: 3, window: '365d' }), 365],
    ['400d', slidingLog({ limit: 3, window: '400d' }), 400],
    ['three in 90d', gcra({ burst: 3, rate: 3, per: '90d' }), 30],
  ])('are kept: %s', async (_, policy, days) => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    const limiter = createLimiter({ limits: [{ name: 'plan', policy }] });
    for (let i = 0; i < 3; i++) expect(limiter.consume(key).allowed).toBe(true);
    await new Promise(setImmediate);
    const refused = limiter.consume(key);
    process.off('warning', note);
    expect(refused.allowed).toBe(false);
    expect(Math.abs(refused.retryAfterMs - days * DAY_MS)).toBeLessThan(1_000);
    expect(warnings).toEqual([]);
  });
});
