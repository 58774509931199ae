import { describe, expect, it, test } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

function rig(policy: Policy): { clock: HandClock; limiter: Limiter<MemoryStore> } {
  const clock = new HandClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, limiter: createLimiter({ store, limits: [{ name: 'ip', policy }] }) };
}

const ip = 'a';
const jobs = concurrency({ limit: 2 });

function admitted(limiter: Limiter<MemoryStore>, tries: number): number {
  const decisions = Array.from({ length: tries }, () => limiter.consume({ ip }));
  return decisions.filter(({ allowed }) => allowed).length;
}

describe.each(COUNTING)('a refund of a %s', (_, make) => {
  it('of an unknown key creates none and gives none', () => {
    const { limiter } = rig(make(2));
    limiter.refund({ ip });
    limiter.refund({ ip }, 100);
    expect(limiter.store.size).toBe(0);
    expect(admitted(limiter, 4)).toBe(2);
  });

  it('at the end of the budget counts', () => {
    const { limiter } = rig(make(2));
    expect(admitted(limiter, 2)).toBe(2);
    limiter.refund({ ip }, 1);
    expect(admitted(limiter, 2)).toBe(1);
  });

  it('of what time gave back already gives nothing more', () => {
    const { limiter, clock } = rig(make(2));
    expect(admitted(limiter, 2)).toBe(2);
    clock.advance(120_000);
    limiter.refund({ ip }, 1);
    expect(limiter.peek({ ip }).remaining).toBe(2);
    expect(admitted(limiter, 4)).toBe(2);
  });

  it('never fills above the quota', () => {
    const { limiter } = rig(make(5));
    limiter.consume({ ip }, { cost: 3 });
    limiter.refund({ ip }, 2);
    expect(limiter.peek({ ip }).remaining).toBe(4);
    limiter.refund({ ip }, 1_000_000);
    expect(limiter.peek({ ip })).toMatchObject({ remaining: 5, resetAfterMs: 0 });
    expect(admitted(limiter, 10)).toBe(5);
  });

  it('of 0 changes nothing, and of no cost is of 1', () => {
    const { limiter } = rig(make(5));
    limiter.consume({ ip }, { cost: 3 });
    limiter.refund({ ip }, 0);
    expect(limiter.peek({ ip }).remaining).toBe(2);
    expect(limiter.refund({ ip })).toBeUndefined();
    expect(limiter.peek({ ip }).remaining).toBe(3);
  });
});

describe('a charge', () => {
  it.each(COUNTING)('of a %s does not ask, within the quota', (_, make) => {
    const { limiter } = rig(make(5));
    expect(limiter.charge({ ip }, 3)).toMatchObject({
      allowed: true,
      remaining: 2,
      retryAfterMs: 0,
    });
    expect(limiter.charge({ ip })).toMatchObject({ allowed: true, remaining: 1 });
    expect(limiter.charge({ ip }, 0)).toMatchObject({ allowed: true, remaining: 1 });
    expect(limiter.consume({ ip }, { cost: 2 }).allowed).toBe(false);
  });

  test.each([
    ['token bucket', tokenBucket({ capacity: 5, rate: 5, per: '60s' }), 132_000],
    ['leaky bucket', leakyBucket({ capacity: 5, rate: 5, per: '60s' }), 132_000],
    ['fixed window', fixedWindow({ limit: 5, window: '60s' }), 60_000],
    ['sliding window', slidingWindow({ limit: 5, window: '60s' }), 60_000 + 44_000],
  ])('of a %s may overdraw it', (_, policy, waitMs) => {
    const { limiter, clock } = rig(policy);
    const overdrawn = limiter.charge({ ip }, 15);
    expect(overdrawn).toMatchObject({ allowed: true, remaining: 0, retryAfterMs: 0 });
    expect(overdrawn.resetAfterMs).toBeGreaterThanOrEqual(60_000);
    expect(limiter.consume({ ip }, { cost: 0 }).allowed).toBe(false);
    expect(limiter.consume({ ip }).retryAfterMs).toBe(waitMs);
    clock.advance(waitMs - 0.001);
    expect(limiter.consume({ ip }).allowed).toBe(false);
    clock.advance(0.001);
    expect(limiter.consume({ ip }).allowed).toBe(true);
  });

  it('of a log beyond its limit is refused', () => {
    const { limiter } = rig(slidingLog({ limit: 5, window: '60s' }));
    expect(limiter.charge({ ip }, 3).allowed).toBe(true);
    expect(limiter.charge({ ip }, 3)).toMatchObject({ allowed: false, remaining: 2 });
    expect(limiter.charge({ ip }, 2).allowed).toBe(true);
  });

  it.each(COUNTING)('of a %s is settled like any other', (_, make) => {
    const { limiter } = rig(make(5));
    void limiter.charge({ ip }, 4).settle(1);
    expect(limiter.peek({ ip }).remaining).toBe(4);
  });

  it.each(COUNTING)('of a %s, ever so large, leaves true numbers', (_, make) => {
    const { limiter } = rig(make(5));
    for (let i = 0; i < 4; i++) limiter.charge({ ip }, Number.MAX_SAFE_INTEGER);
    const { remaining, retryAfterMs, resetAfterMs, limit } = limiter.peek({ ip });
    expect([remaining, limit]).toEqual([remaining === 5 ? 5 : 0, 5]);
    expect(retryAfterMs).toBeLessThan(1e15);
    expect(resetAfterMs).toBeGreaterThanOrEqual(retryAfterMs);
  });
});

it('neither charges nor refunds slots', () => {
  const limiter = createLimiter({
    limits: [
      { name: 'ip', policy: fixedWindow({ limit: 5, window: '1d' }) },
      { name: 'jobs', policy: jobs },
    ],
  });
  for (const call of ['charge', 'refund'] as const) {
    for (const keys of [{ jobs: 'a' }, { ip, jobs: 'a' }]) {
      expect(() => limiter[call](keys)).toThrow(TollgateArgumentError);
      expect(() => limiter[call](keys)).toThrow(`${call}: jobs is a concurrency limit`);
    }
    limiter[call]({ ip, jobs: undefined });
  }
  expect(limiter.peek({ ip, jobs: 'a' }).verdicts.map(({ remaining }) => remaining)).toEqual([
    5, 2,
  ]);
});

describe('a reset', () => {
  it.each(COUNTING)('forgets a key of a %s, and that one only', (_, make) => {
    const { limiter } = rig(make(2));
    for (const key of ['a', 'b']) limiter.charge({ ip: key }, 2);
    expect(limiter.reset({ ip: 'a' })).toBeUndefined();
    expect(limiter.peek({ ip: 'a' })).toMatchObject({ remaining: 2, resetAfterMs: 0 });
    expect(limiter.peek({ ip: 'b' }).remaining).toBe(0);
    limiter.reset({ ip: 'c' });
    limiter.reset({});
    limiter.reset({ ip: undefined });
    expect(limiter.store.size).toBe(1);
  });

  it('forgets what any policy left there', () => {
    const { limiter } = rig(fixedWindow({ limit: 5, window: '1d' }));
    const plans = COUNTING.map(([, make]) => ({ policies: { ip: make(5) } }));
    for (const plan of plans) limiter.consume({ ip }, plan);
    limiter.reset({ ip });
    expect(limiter.store.size).toBe(0);
    for (const plan of plans) expect(limiter.peek({ ip }, plan).remaining).toBe(5);
  });

  it('frees the slots of a key, and their release is nothing then', async () => {
    const { limiter } = rig(jobs);
    const held = [limiter.consume({ ip }), limiter.consume({ ip })];
    limiter.reset({ ip });
    const again = [limiter.consume({ ip }), limiter.consume({ ip })];
    expect(again.map(({ allowed }) => allowed)).toEqual([true, true]);
    for (const decision of held) await decision.release();
    expect(limiter.peek({ ip }).remaining).toBe(0);
    limiter.close();
  });

  it('makes an earlier settlement worth nothing', () => {
    const { limiter } = rig(fixedWindow({ limit: 5, window: '1d' }));
    const old = limiter.consume({ ip }, { cost: 4 });
    limiter.reset({ ip });
    expect(limiter.store.size).toBe(0);
    void old.settle(0);
    expect(limiter.store.size).toBe(0);
    expect(limiter.peek({ ip }).remaining).toBe(5);
  });
});
