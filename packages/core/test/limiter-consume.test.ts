import { describe, expect, it, test } from 'vitest';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import {
  fixedWindow,
  gcra,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

interface Rig {
  readonly clock: HandClock;
  readonly store: MemoryStore;
  readonly limiter: Limiter<MemoryStore>;
}

function rig(policy: Policy): Rig {
  const clock = new HandClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, store, limiter: createLimiter({ store, limits: [{ name: 'ip', policy }] }) };
}

const ip = 'a';

describe.each(COUNTING)('%s', (name, make) => {
  it('consumes nothing when it refuses', () => {
    const { limiter } = rig(make(10));
    expect(limiter.consume({ ip }, { cost: 8 })).toMatchObject({ allowed: true, remaining: 2 });
    for (let i = 0; i < 20; i++) {
      expect(limiter.consume({ ip }, { cost: 5 })).toMatchObject({ allowed: false, remaining: 2 });
    }
    expect(limiter.consume({ ip }, { cost: 2 })).toMatchObject({ allowed: true, remaining: 0 });
    expect(limiter.consume({ ip })).toMatchObject({ allowed: false, remaining: 0 });
  });

  it('peeks without a trace', () => {
    const { limiter, store } = rig(make(3));
    for (let i = 0; i < 100; i++) {
      const seen = limiter.peek({ ip });
      expect(seen).toMatchObject({ allowed: true, remaining: 3, resetAfterMs: 0, retryAfterMs: 0 });
    }
    expect(store.size).toBe(0);
    limiter.consume({ ip });
    const before = limiter.peek({ ip }).toJSON();
    for (let i = 0; i < 100; i++) limiter.consume({ ip }, { cost: 0 });
    expect(limiter.peek({ ip }, { cost: 3 })).toMatchObject({ allowed: false, remaining: 2 });
    expect(limiter.peek({ ip }).toJSON()).toEqual(before);
  });

  it('answers a peek as it would a consume, before the charge', () => {
    const { limiter } = rig(make(3));
    for (const cost of [2, 2, 1, 1]) {
      const seen = limiter.peek({ ip }, { cost });
      const told = limiter.consume({ ip }, { cost });
      expect(seen.allowed).toBe(told.allowed);
      expect(seen.retryAfterMs).toBe(told.retryAfterMs);
      expect(seen.delayMs).toBe(told.delayMs);
      expect(seen.remaining).toBe(told.remaining + (told.allowed ? cost : 0));
    }
  });

  it('is told true times: at retryAfter it is admitted, a microsecond earlier it is not', () => {
    const { limiter, clock } = rig(make(3));
    clock.advance(1_234.567);
    limiter.consume({ ip }, { cost: 3 });
    clock.advance(17.001);
    const { retryAfterMs } = limiter.consume({ ip }, { cost: 2 });
    clock.advance(retryAfterMs - 0.001);
    expect(limiter.consume({ ip }, { cost: 2 })).toMatchObject({
      allowed: false,
      retryAfterMs: 0.001,
    });
    clock.advance(0.001);
    expect(limiter.consume({ ip }, { cost: 2 }).allowed).toBe(true);
  });

  it('never admits a cost above the quota, and says so', () => {
    const { limiter, clock, store } = rig(make(10));
    const never = limiter.consume({ ip }, { cost: 11 });
    expect(never).toMatchObject({ allowed: false, reason: 'limited', retryAfterMs: Infinity });
    expect(never).toMatchObject({ limit: 10, remaining: 10, delayMs: 0 });
    expect(store.size).toBe(0);
    clock.advance(1e9);
    expect(limiter.consume({ ip }, { cost: 11 }).allowed).toBe(false);
    expect(limiter.consume({ ip }, { cost: 10 }).allowed).toBe(true);
  });

  it('does not overfill in a long pause', () => {
    const { limiter, clock } = rig(make(10, '10s'));
    limiter.consume({ ip }, { cost: 10 });
    clock.advance(1e9);
    const admitted = Array.from({ length: 50 }, () => limiter.consume({ ip }).allowed);
    expect(admitted.filter(Boolean)).toHaveLength(10);
  });

  it('lets one recover who never stops asking', () => {
    const { limiter, clock } = rig(make(2, '4s'));
    let admitted = 0;
    for (let second = 0; second < 60; second++) {
      if (limiter.consume({ ip }).allowed) admitted++;
      clock.advance(1_000);
    }
    expect(admitted).toBeGreaterThanOrEqual(name === 'sliding window' ? 14 : 28);
    expect(admitted).toBeLessThanOrEqual(32);
  });

  it('says later what was true then', () => {
    const { limiter, clock } = rig(make(3));
    const first = limiter.consume({ ip });
    const peeked = limiter.peek({ ip });
    limiter.charge({ ip }, 2);
    const refused = limiter.consume({ ip }, { cost: 2 });
    limiter.consume({ ip: 'b' });
    clock.advance(100_000);
    limiter.reset({ ip });
    limiter.update('ip', tokenBucket({ capacity: 1, rate: 1, per: '1s' }));
    expect(first).toMatchObject({ allowed: true, remaining: 2, limit: 3, retryAfterMs: 0 });
    expect(peeked).toMatchObject({ allowed: true, remaining: 2, retryAfterMs: 0 });
    expect(refused).toMatchObject({ allowed: false, remaining: 0, limit: 3 });
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    expect(first.atMs).toBe(refused.atMs);
  });
});

describe('a wait', () => {
  it('is not rounded down', () => {
    const { limiter, clock } = rig(tokenBucket({ capacity: 1, rate: 1, per: 1_500 }));
    limiter.consume({ ip });
    clock.advance(200);
    expect(limiter.consume({ ip }).retryAfterMs).toBe(1_300);
  });

  test.each([
    ['log', slidingLog({ limit: 3, window: '60s' }), 20_000],
    ['window', fixedWindow({ limit: 3, window: '60s' }), 20_000],
    ['two counters', slidingWindow({ limit: 3, window: '60s' }), 40_000],
    ['bucket', gcra({ burst: 3, rate: 3, per: '60s' }), 15_000],
  ])('of a %s is to the moment', (_, policy, waitMs) => {
    const { limiter, clock } = rig(policy);
    for (let i = 0; i < 3; i++) limiter.consume({ ip });
    clock.advance(policy.algorithm === 'token-bucket' ? 5_000 : 40_000);
    expect(limiter.consume({ ip }).retryAfterMs).toBe(waitMs);
  });
});

describe('a bucket', () => {
  it('is not kept from refilling by those who ask often', () => {
    const { limiter, clock } = rig(tokenBucket({ capacity: 10, rate: 10, per: '30s' }));
    const remaining = Array.from({ length: 11 }, () => {
      const left = limiter.consume({ ip }).remaining;
      clock.advance(1_000);
      return left;
    });
    expect(remaining).toEqual([9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2]);

    const slow = rig(tokenBucket({ capacity: 5, rate: 1, per: '10s' }));
    slow.limiter.consume({ ip }, { cost: 5 });
    let admitted = 0;
    for (let ms = 0; ms <= 35_000; ms += 7) {
      if (slow.limiter.consume({ ip }).allowed) admitted++;
      slow.clock.advance(7);
    }
    expect(admitted).toBe(3);
  });
});

describe('the worst case at the edge of a window', () => {
  const worst = (policy: Policy): number => {
    const { limiter, clock } = rig(policy);
    const admitted: number[] = [];
    for (const at of [999, 1_998]) {
      clock.us = new HandClock().us + at * 1_000;
      for (let i = 0; i < 150; i++) if (limiter.consume({ ip }).allowed) admitted.push(at);
    }
    return admitted.length;
  };

  test.each([
    ['a fixed window admits twice the limit', fixedWindow({ limit: 100, window: '1s' }), 200],
    ['two counters admit a little less', slidingWindow({ limit: 100, window: '1s' }), 199],
    ['a log admits the limit', slidingLog({ limit: 100, window: '1s' }), 100],
    [
      'a bucket admits its capacity and what flows in',
      tokenBucket({ capacity: 100, rate: 100, per: '1s' }),
      199,
    ],
  ])('%s', (_, policy, admitted) => expect(worst(policy)).toBe(admitted));
});

it('is exact in windows of less than a second', () => {
  for (const [window, expected] of [
    ['250ms', 12],
    ['100ms', 30],
  ] as const) {
    for (const [name, make] of COUNTING) {
      const { limiter, clock } = rig(make(1, window));
      let admitted = 0;
      for (let ms = 0; ms < 3_000; ms++) {
        if (limiter.consume({ ip }).allowed) admitted++;
        clock.advance(1);
      }
      const share = name === 'sliding window' ? 2 : 1;
      expect(Math.abs(admitted * share - expected), `${name} ${window}`).toBeLessThanOrEqual(1);
    }
  }
});

it('tells a refusal by a value, which nobody has to look at', async () => {
  const refusals: unknown[] = [];
  const note = (error: unknown): void => void refusals.push(error);
  process.on('unhandledRejection', note);
  const { limiter } = rig(tokenBucket({ capacity: 1, rate: 1, per: '1h' }));
  limiter.consume({ ip });
  limiter.consume({ ip });
  const awaited = await Promise.resolve(limiter.consume({ ip }));
  await new Promise(setImmediate);
  process.off('unhandledRejection', note);
  expect(awaited.allowed).toBe(false);
  expect(refusals).toEqual([]);
});
