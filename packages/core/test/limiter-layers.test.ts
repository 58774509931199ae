import { describe, expect, it, test } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import type { Keys } from '../src/limits.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  tokenBucket,
} from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

const per = (limit: number, window: string): Policy => fixedWindow({ limit, window });

function layers(policies: Record<string, Policy>, clock = new HandClock()): Limiter<MemoryStore> {
  return createLimiter({
    store: memoryStore({ clock: clock.read }),
    limits: Object.entries(policies).map(([name, policy]) => ({ name, policy })),
  });
}

function remaining(limiter: Limiter<MemoryStore>, keys: Keys): number[] {
  return limiter.peek(keys).verdicts.map((verdict) => verdict.remaining);
}

describe.each(COUNTING)('a %s that refuses', (_, make) => {
  test.each([0, 1, 2])('takes nothing from the others, at place %d', (place) => {
    const policies = [make(10), make(20), per(5, '1h')];
    policies[place] = make(3);
    const [a, b, c] = policies as [Policy, Policy, Policy];
    const limiter = layers({ a, b, c, d: concurrency({ limit: 4 }) });
    const keys = { a: 'x', b: 'x', c: 'x', d: 'x' };
    for (let i = 0; i < 3; i++) expect(limiter.consume(keys).allowed).toBe(true);
    const before = remaining(limiter, keys);
    for (let i = 0; i < 10; i++) {
      const decision = limiter.consume(keys);
      expect(decision.allowed).toBe(false);
      expect(decision.verdicts.map(({ allowed }) => allowed)).toEqual(
        [0, 1, 2, 3].map((at) => at !== place),
      );
      expect(decision.verdicts.map((verdict) => verdict.remaining)).toEqual(before);
    }
    expect(remaining(limiter, keys)).toEqual(before);
    expect(before).toEqual([...policies.map((p) => ('limit' in p ? p.limit : p.capacity) - 3), 1]);
  });

  it('holds nobody', () => {
    const limiter = layers({
      own: make(1),
      queue: leakyBucket({ capacity: 9, rate: 1, per: '1s' }),
    });
    const keys = { own: 'x', queue: 'x' };
    expect(limiter.consume(keys).delayMs).toBe(0);
    expect(limiter.consume(keys)).toMatchObject({ allowed: false, delayMs: 0 });
    expect(limiter.consume({ queue: 'x' }).delayMs).toBe(1_000);
  });
});

describe('a request that two refuse', () => {
  const policies = { minute: per(1, '60s'), hour: per(1, '1h'), day: per(9, '1d') };
  const keys = { minute: 'x', hour: 'x', day: 'x' };

  it('is told the longer wait', () => {
    const clock = new HandClock();
    const limiter = layers(policies, clock);
    limiter.consume(keys);
    clock.advance(1_000);
    const decision = limiter.consume(keys);
    expect(decision.binding?.name).toBe('hour');
    expect(decision.retryAfterMs).toBe(3_599_000);
    expect(decision).toMatchObject({ limit: 1, remaining: 0, resetAfterMs: 3_599_000 });
    clock.advance(60_000);
    expect(limiter.consume(keys)).toMatchObject({ allowed: false, retryAfterMs: 3_539_000 });
    clock.advance(3_539_000 - 0.001);
    expect(limiter.consume(keys).allowed).toBe(false);
    clock.advance(0.001);
    expect(limiter.consume(keys).allowed).toBe(true);
  });

  it('is told Infinity if one can never admit it', () => {
    const limiter = layers({ ...policies, none: per(0, '1s') });
    const decision = limiter.consume({ ...keys, none: 'x' });
    expect(decision.binding?.name).toBe('none');
    expect(decision.retryAfterMs).toBe(Infinity);
    const dear = limiter.consume(keys, { cost: { minute: 2, hour: 1 } });
    expect(dear.binding?.name).toBe('minute');
    expect(dear.retryAfterMs).toBe(Infinity);
    expect(limiter.store.size).toBe(0);
  });

  it('is told the gravest reason', () => {
    const reserved = concurrency({ limit: 2, slotTimeout: '1s', reserved: { critical: 0.5 } });
    const limiter = layers({ hour: per(1, '1h'), jobs: reserved });
    const both = { hour: 'x', jobs: 'x' };
    limiter.consume(both);
    const decision = limiter.consume(both);
    expect(decision.verdicts.map(({ reason }) => reason)).toEqual(['limited', 'overloaded']);
    expect(decision.reason).toBe('overloaded');
    expect(decision.binding?.name).toBe('hour');
    expect(decision.retryAfterMs).toBe(3_600_000);
  });
});

describe('the binding verdict of an admitted request', () => {
  it('is the one with the least remaining share', () => {
    const limiter = layers({ second: per(10, '1s'), hour: per(1_000, '1h') });
    const keys = { second: 'x', hour: 'x' };
    expect(limiter.consume(keys).binding?.name).toBe('second');
    limiter.charge({ hour: 'x' }, 900);
    const decision = limiter.consume(keys);
    expect(decision.binding?.name).toBe('hour');
    expect(decision.binding).toBe(decision.verdicts[1]);
    expect(decision).toMatchObject({ limit: 1_000, remaining: 98, retryAfterMs: 0, reason: 'ok' });
    expect(limiter.peek(keys).binding?.name).toBe('hour');
  });

  it('is the only one that applied', () => {
    const limiter = layers({ second: per(10, '1s'), hour: per(1_000, '1h') });
    const decision = limiter.consume({ hour: 'x' });
    expect(decision.binding).toMatchObject({ name: 'hour', key: 'x', remaining: 999 });
    expect(decision.verdicts).toHaveLength(1);
  });
});

describe('verdicts', () => {
  it("stand in the limits' order, whatever the keys' order", () => {
    const limiter = layers({ a: per(1, '1s'), b: per(1, '1s'), c: per(1, '1s') });
    const decision = limiter.consume({ c: '3', a: '1', b: '2' });
    expect(decision.verdicts.map(({ name, key }) => name + key)).toEqual(['a1', 'b2', 'c3']);
  });

  it('say all there is to say', () => {
    const clock = new HandClock();
    const bucket = tokenBucket({ capacity: 10, rate: 2, per: '1s' });
    const limiter = layers({ ip: bucket }, clock);
    clock.advance(250);
    const decision = limiter.consume({ ip: 'a' }, { cost: 4 });
    const verdict = {
      name: 'ip',
      key: 'a',
      policy: bucket,
      allowed: true,
      shadow: false,
      reason: 'ok',
      source: 'store',
      cost: 4,
      limit: 10,
      remaining: 6,
      nextAfterMs: 500,
      resetAfterMs: 2_000,
      retryAfterMs: 0,
    };
    expect(decision.verdicts).toEqual([verdict]);
    expect(decision.toJSON()).toEqual({
      allowed: true,
      reason: 'ok',
      verdicts: [verdict],
      binding: verdict,
      limit: 10,
      remaining: 6,
      resetAfterMs: 2_000,
      retryAfterMs: 0,
      delayMs: 0,
      atMs: clock.us / 1_000,
      source: 'store',
    });
    expect(JSON.parse(JSON.stringify(decision))).toEqual(decision.toJSON());
  });
});

describe('many limits', () => {
  const many = (count: number): Record<string, Policy> =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`limit${at}`, per(2, '1d')]));
  const keysOf = (count: number): Keys =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`limit${at}`, 'x']));

  it('are decided as one up to 16 at a time', () => {
    const limiter = layers(many(40));
    expect(limiter.consume(keysOf(16)).verdicts).toHaveLength(16);
    limiter.consume({ limit15: 'x' });
    const decision = limiter.consume(keysOf(16));
    expect(decision).toMatchObject({ allowed: false, binding: { name: 'limit15' } });
    expect(remaining(limiter, keysOf(16))).toEqual([...Array<number>(15).fill(1), 0]);
  });

  it('are too many from 17 on', () => {
    const limiter = layers(many(40));
    for (const call of ['consume', 'peek', 'charge', 'refund', 'wait'] as const) {
      expect(() => limiter[call](keysOf(17))).toThrow(TollgateArgumentError);
      expect(() => limiter[call](keysOf(17))).toThrow(/at most 16 limits, got keys for 17/);
    }
    expect(limiter.store.size).toBe(0);
  });
});

it('one leaky bucket of two holds the longer of their delays', () => {
  const slow = leakyBucket({ capacity: 5, rate: 1, per: '1s' });
  const fast = leakyBucket({ capacity: 5, rate: 10, per: '1s' });
  const limiter = layers({ slow, fast, log: slidingLog({ limit: 9, window: '1s' }) });
  const keys = { slow: 'x', fast: 'x', log: 'x' };
  const delays = [0, 1, 2, 3, 4, 5].map(() => limiter.consume(keys));
  expect(delays.map(({ delayMs }) => delayMs)).toEqual([0, 1_000, 2_000, 3_000, 4_000, 0]);
  expect(delays.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true, false]);
  expect(limiter.peek({ log: 'x' }).remaining).toBe(4);
});
