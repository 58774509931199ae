import { describe, expect, test } from 'vitest';
import type { Rule } from '../src/algorithm.ts';
import type { Verdict } from '../src/verdict.ts';
import {
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';
import type { Charge } from '../src/store.ts';
import { ruleOf } from '../src/algorithms/index.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import { pairOf } from './exactness-steps.ts';
import { type Op, World } from './exactness-world.ts';

/** Small histories of what random ones came upon. Times in microseconds from an instant that all ticks divide. */
class Case {
  private readonly world = new World();
  private readonly rules = new Map<Policy, Rule>();

  op(deed: Op['deed'], after: number, policy: Policy, units: number, of?: Op): Op {
    const rule = this.rules.get(policy) ?? pairOf(policy).rule;
    this.rules.set(policy, rule);
    return { deed, at: 1_700_000_000_000_000 + after, which: 0, rule, units, of };
  }

  /** Charges, for a settlement to come. */
  charge(after: number, policy: Policy, units: number): Op {
    const op = this.op('charge', after, policy, units);
    this.world.do(op);
    return op;
  }

  settle(after: number, charge: Op, actual: number): void {
    const { rule, units } = charge;
    this.world.do(this.op('settle', after, rule.policy, actual - units, charge));
  }

  refund(after: number, policy: Policy, units: number): void {
    this.world.do(this.op('refund', after, policy, units));
  }

  consume(after: number, policy: Policy, units: number): Verdict {
    return this.world.do(this.op('consume', after, policy, units)).answer?.verdicts[0] as Verdict;
  }

  peek(after: number, policy: Policy): Verdict {
    return this.world.do(this.op('peek', after, policy, 1)).answer?.verdicts[0] as Verdict;
  }
}

const SECOND = 1_000_000;

describe('a bucket gives back no more than is still owed of the charge', () => {
  const policy = tokenBucket({ capacity: 10, rate: 1, per: 0.01 });

  test('when the clock stepped back to the very instant of the charge', () => {
    const key = new Case();
    const first = key.charge(0, policy, 5);
    key.charge(50, policy, 5);
    expect(key.consume(0, policy, 0).remaining).toBe(5);
    // The first five had drained before the others came.
    key.settle(0, first, 0);
    expect(key.peek(0, policy).remaining).toBe(5);
  });

  test('when another rate came in between, all at one instant', () => {
    const key = new Case();
    const first = key.charge(0, policy, 5);
    key.refund(0, policy, 5);
    key.charge(0, tokenBucket({ capacity: 10, rate: 1, per: 0.007 }), 3);
    key.charge(0, policy, 1);
    key.settle(0, first, 0);
    expect(key.peek(0, policy).remaining).toBe(6);
  });

  test('when it drained faster under another rate', () => {
    const key = new Case();
    const fast = tokenBucket({ capacity: 100, rate: 9, per: 0.01 });
    const slow = tokenBucket({ capacity: 100, rate: 1, per: 0.01 });
    const first = key.charge(0, slow, 10);
    // One of the ten is left when one more comes.
    key.charge(10, fast, 1);
    key.charge(10, fast, 20);
    key.settle(10, first, 0);
    // Without the ten, 21 are owed.
    expect(key.peek(10, slow).remaining).toBeLessThanOrEqual(79);
  });

  test('when debt had saturated', () => {
    const key = new Case();
    // At most 1,737 units and a little can be owed.
    const edge = tokenBucket({ capacity: 1_737, rate: 123_457, per: '30d' });
    const first = key.charge(0, edge, 1_700);
    key.charge(0, edge, 1_700);
    key.settle(0, first, 0);
    expect(key.peek(0, edge).remaining).toBeLessThanOrEqual(37);
  });
});

describe('buckets', () => {
  test('debt of a faster rate saturates at what a slower one can count', () => {
    const key = new Case();
    key.charge(0, leakyBucket({ capacity: 0, rate: 7, per: 1 }), 2 ** 44 - 1);
    const { resetAfterMs } = key.peek(0, leakyBucket({ capacity: 0, rate: 1, per: 1 }));
    expect(resetAfterMs * 1_000).toBeLessThanOrEqual(2 ** 52);
  });

  test('a settlement under an old, small capacity forgives nothing of what a new one counts', () => {
    const key = new Case();
    const rate = { rate: 123_457, per: '30d' };
    const small = tokenBucket({ capacity: 1_737, ...rate });
    const great = tokenBucket({ capacity: 123_457, ...rate });
    const first = key.charge(0, small, 10);
    expect(key.consume(0, great, 100_000).remaining).toBe(23_447);
    key.settle(0, first, 9);
    expect(key.peek(0, great).remaining).toBeLessThanOrEqual(23_448);
  });

  test('a whole key is as if never seen, also where time is counted in seconds', () => {
    const policy = tokenBucket({ capacity: 10 ** 9, rate: 999_999_937, per: '30d' });
    const key = new Case();
    key.charge(0, policy, 1);
    key.consume(5 * SECOND + 400_000, policy, 0);
    key.refund(5 * SECOND + 400_000, policy, 1);
    // The clock steps back, within a second.
    expect(key.consume(3 * SECOND + 700_000, policy, 0).resetAfterMs).toBe(0);
    const fresh = new Case().consume(3 * SECOND + 700_000, policy, 1);
    expect(key.consume(3 * SECOND + 700_000, policy, 1).resetAfterMs).toBe(fresh.resetAfterMs);
  });
});

describe('a sliding log', () => {
  test('forgets nothing at a refusal under a shorter window', () => {
    const key = new Case();
    const long = slidingLog({ limit: 2, window: '100s' });
    key.charge(0, long, 2);
    expect(key.consume(50 * SECOND, slidingLog({ limit: 2, window: '10s' }), 3).allowed).toBe(
      false,
    );
    expect(key.consume(50 * SECOND, long, 1).allowed).toBe(false);
  });

  test('forgets nothing at a cost of 0', () => {
    const key = new Case();
    const policy = slidingLog({ limit: 1, window: '10s' });
    key.charge(0, policy, 1);
    expect(key.consume(10 * SECOND, policy, 0).remaining).toBe(1);
    // The clock steps back, to where the unit still counts.
    expect(key.consume(5 * SECOND, policy, 1).allowed).toBe(false);
  });

  test('keeps the promise of a longer window while a shorter one is in force elsewhere', () => {
    const key = new Case();
    const long = slidingLog({ limit: 2, window: '100s' });
    expect(key.consume(0, long, 2).allowed).toBe(true);
    key.consume(50 * SECOND, slidingLog({ limit: 2, window: '10s' }), 1);
    expect(key.consume(50 * SECOND, long, 1).allowed).toBe(false);
  });
});

test('a fixed window keeps its count while `spread` is on in one place and off in another', () => {
  const key = new Case();
  const together = fixedWindow({ limit: 10, window: '60s' });
  const spread = fixedWindow({ limit: 10, window: '60s', spread: true });
  let admitted = 0;
  for (let second = 0; second < 10; second++) {
    for (const policy of [together, spread]) {
      if (key.consume(second * SECOND, policy, 10).allowed) admitted += 10;
    }
  }
  // The spread window may end within these seconds, and so may the other.
  expect(admitted).toBeLessThanOrEqual(40);
});

test('a sliding window moves no more than is still owed to a longer one', () => {
  const key = new Case();
  const month = slidingWindow({ limit: 3_474_000, window: '30d' });
  const longer = slidingWindow({ limit: 3_474_000, window: '33d' });
  // From here the next window of 30 days begins after some time; half of it is left another 15 days later.
  const day = 86_400 * SECOND;
  const start = 1_700_000_000_000_000;
  const half = (Math.floor(start / (30 * day)) + 1.5) * 30 * day - start;
  key.charge(0, month, 10_000_000);
  key.charge(half, longer, 1);
  // Half of the ten million and one are owed; refunding them leaves the key whole.
  key.refund(half, longer, 5_000_001);
  expect(key.peek(half, longer).resetAfterMs).toBe(0);
});

test.each([fixedWindow, slidingWindow])('a limit near 2^53 is reached (%o)', (window) => {
  const key = new Case();
  const policy = window({ limit: Number.MAX_SAFE_INTEGER, window: 0.001 });
  key.charge(0, policy, Number.MAX_SAFE_INTEGER - 1);
  expect(key.peek(0, policy).remaining).toBe(1);
  expect(key.consume(0, policy, 1).allowed).toBe(true);
  expect(key.consume(0, policy, 1).allowed).toBe(false);
});

test('a rate that is large only before it is reduced is counted in milliseconds', () => {
  const policy = tokenBucket({ capacity: 100_000, rate: 10 ** 13 + 1, per: '400d' });
  expect(new Case().consume(0, policy, 1).allowed).toBe(true);
});

test('a peek with a charge that was made before changes nothing', () => {
  const store = new MemoryStore({ clock: () => 1_700_000_000_000_000 });
  const rule = ruleOf(fixedWindow({ limit: 10, window: '60s' }));
  const charge: Charge = { name: 'a', key: 'k', rule, cost: 3, shadow: false, receipt: undefined };
  store.decide([charge], 'consume');
  store.reset([charge]);
  expect(store.decide([charge], 'peek').verdicts[0]?.remaining).toBe(10);
  expect(store.size).toBe(0);
});
