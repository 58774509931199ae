import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Policy } from '../src/policy.ts';
import type { BucketTerms, Rate } from './exactness-buckets.ts';
import {
  ALGORITHMS,
  type Family,
  fixedWindows,
  leakyBuckets,
  slidingLogs,
  slidingWindows,
  slots,
  tokenBuckets,
} from './exactness-policies.ts';
import { pairOf, starts, step, type Step } from './exactness-steps.ts';
import { type Event, happen, KEY, World } from './exactness-world.ts';

const RUNS = { numRuns: 400 };

/** Requests only: bounds are about what is admitted, not about debt that was forced upon a key. */
const requests: fc.Arbitrary<Step[]> = fc.array(
  step.map((each): Step => ({ ...each, deed: 'consume' })),
  { maxLength: 80, size: 'max' },
);

/** Units that were admitted at an instant, under one of several policies. */
interface Admission {
  readonly at: number;
  readonly units: number;
  readonly policy: Policy;
}

/** A window's count saturates at 2^52, so a greater limit is never reached. */
const rulesOf = (family: Family) => family.map((policy) => pairOf(policy).rule);

function admissions(events: readonly Event[]): Admission[] {
  return events.flatMap(({ op, answer }) =>
    answer?.verdicts[0]?.allowed === true && op.units > 0
      ? [{ at: op.at, units: op.units, policy: op.rule.policy }]
      : [],
  );
}

const total = (made: readonly Admission[]): number =>
  made.reduce((sum, { units }) => sum + units, 0);

/** Calls back with the units of every span that begins with one admission and ends with another. */
function spans<A extends Admission>(
  made: readonly A[],
  check: (units: bigint, first: A, last: A) => void,
): void {
  made.forEach((first, from) => {
    let units = 0n;
    for (const last of made.slice(from)) {
      units += BigInt(last.units);
      check(units, first, last);
    }
  });
}

interface Timed extends Admission {
  /** Microseconds, whole ticks where time is counted in ticks, for which the clock went forward until then. */
  readonly elapsed: bigint;
}

/** Admissions by the time that truly passed, at a clock that steps back now and then. */
function timed(events: readonly Event[], tick: number): Timed[] {
  let [elapsed, before] = [0n, events[0]?.op.at ?? 0];
  return events.flatMap((event) => {
    const { at } = event.op;
    elapsed += BigInt(Math.max(0, Math.floor(at / tick) - Math.floor(before / tick)) * tick);
    before = at;
    return admissions([event]).map((admission) => ({ ...admission, elapsed }));
  });
}

const rateOf = ({ terms }: ReturnType<typeof pairOf>): Rate => (terms as BucketTerms).rate;

/** No span sees more than `capacity` and what drains in the meantime. */
function expectDrained(made: readonly Timed[], capacity: number, rate: Rate, slack: bigint): void {
  const { drain, unit, tick } = rate;
  spans(made, (units, first, last) => {
    const time = last.elapsed - first.elapsed + slack;
    const most = BigInt(capacity) * unit * tick + drain * time;
    expect(units * unit * tick <= most).toBe(true);
  });
}

const windowOf = (policy: Policy): number =>
  'window' in policy ? Math.round(policy.window * 1_000) : 0;

const timeoutOf = (policy: Policy): number =>
  'slotTimeout' in policy ? Math.round(policy.slotTimeout * 1_000) : 0;

describe('never more than is promised', () => {
  test.each([tokenBuckets, leakyBuckets])(
    'a bucket: capacity + rate · t in any span t',
    (families) => {
      fc.assert(
        fc.property(families, starts, requests, fc.boolean(), (family, start, steps, forward) => {
          const policy = family[0];
          if (policy === undefined || !('capacity' in policy)) return;
          const pair = pairOf(policy);
          const rate = rateOf(pair);
          const events = happen(new World(), [pair.rule], start, steps, forward);
          expectDrained(timed(events, Number(rate.tick)), policy.capacity, rate, 0n);
        }),
        RUNS,
      );
    },
  );

  test('a fixed window: the limit in each window, and after a step back no window over again', () => {
    fc.assert(
      fc.property(fixedWindows, starts, requests, fc.boolean(), (family, start, steps, forward) => {
        const rules = rulesOf(family.slice(0, 1));
        const events = happen(new World(), rules, start, steps, forward);
        const [window, limit, offset] = [
          windowOf(rules[0]?.policy as Policy),
          rules[0]?.quota ?? 0,
          rules[0]?.offset(KEY) ?? 0,
        ];
        // Windows that began while the clock went forward.
        const index = (at: number): number => Math.floor((at + offset) / window);
        let [begun, before] = [0n, events[0]?.op.at ?? 0];
        const admitted = new Map<bigint, number>();
        for (const event of events) {
          begun += BigInt(Math.max(0, index(event.op.at) - index(before)));
          before = event.op.at;
          const sum = (admitted.get(begun) ?? 0) + total(admissions([event]));
          admitted.set(begun, sum);
          expect(sum).toBeLessThanOrEqual(limit);
        }
      }),
      RUNS,
    );
  });

  test('a sliding window: within its own estimate, and less than twice the limit in any window', () => {
    fc.assert(
      fc.property(slidingWindows, starts, requests, (family, start, steps) => {
        const rules = rulesOf(family.slice(0, 1));
        const made = admissions(happen(new World(), rules, start, steps, true));
        const [window, limit] = [windowOf(rules[0]?.policy as Policy), rules[0]?.quota ?? 0];
        spans(made, (units, first, last) => {
          if (last.at - first.at < window) expect(units).toBeLessThan(2n * BigInt(limit));
        });
        made.forEach(({ at }, index) => {
          const begin = Math.floor(at / window) * window;
          const until = made.slice(0, index + 1);
          const count = total(until.filter((each) => each.at >= begin));
          const previous = total(until.filter((each) => each.at >= begin - window)) - count;
          const left = BigInt(window - (at - begin));
          const estimate = BigInt(count) * BigInt(window) + BigInt(previous) * left;
          expect(estimate <= BigInt(limit) * BigInt(window)).toBe(true);
        });
      }),
      RUNS,
    );
  });

  test('a sliding log: the limit in any window, of time that truly passed', () => {
    fc.assert(
      fc.property(slidingLogs, starts, requests, fc.boolean(), (family, start, steps, forward) => {
        const rules = rulesOf(family.slice(0, 1));
        const events = happen(new World(), rules, start, steps, forward);
        const [window, limit] = [windowOf(rules[0]?.policy as Policy), rules[0]?.quota ?? 0];
        spans(timed(events, 1), (units, first, last) => {
          if (last.elapsed - first.elapsed < window)
            expect(units).toBeLessThanOrEqual(BigInt(limit));
        });
      }),
      RUNS,
    );
  });

  test('a leaky bucket: departures at its rate, and no more in the queue than fit', () => {
    fc.assert(
      fc.property(leakyBuckets, starts, requests, (family, start, steps) => {
        const policy = family[0];
        if (policy === undefined || !('capacity' in policy)) return;
        const pair = pairOf(policy);
        const { drain, unit, tick } = rateOf(pair);
        // When the last unit leaves, in ticks times `drain`, so that it is a whole number.
        let free = 0n;
        for (const { op, answer } of happen(new World(), [pair.rule], start, steps, true)) {
          if (answer?.verdicts[0]?.allowed !== true || op.units === 0) continue;
          const now = (BigInt(op.at) / tick) * drain;
          const leaves = free > now ? free : now;
          // Held until those before have left, in whole ticks rounded up.
          const departure = ((leaves + drain - 1n) / drain) * tick;
          const expected = leaves === now ? 0n : departure - BigInt(op.at);
          expect(BigInt(answer.delay)).toBe(expected);
          free = leaves + BigInt(op.units) * unit;
          expect(free - now <= BigInt(policy.capacity) * unit).toBe(true);
        }
      }),
      RUNS,
    );
  });

  test('concurrency: no more in flight than the limit, old and new in turn', () => {
    const busy = fc.array(
      step.map((each): Step => ({
        ...each,
        cost: 'one',
        deed: each.deed === 'settleUp' ? 'renew' : each.deed,
      })),
      { maxLength: 80, size: 'max' },
    );
    fc.assert(
      fc.property(slots, starts, busy, (family, start, steps) => {
        const timeout = timeoutOf(family[0] as Policy);
        const rules = rulesOf(family).filter(({ policy }) => timeoutOf(policy) === timeout);
        const expiries = new Map<object, number>();
        for (const { op, charge, held } of happen(new World(), rules, start, steps, true)) {
          const { at, of, deed, rule } = op;
          if (held === true && of !== undefined) expiries.set(of, at + timeout);
          if (deed === 'settle' && of !== undefined) expiries.delete(of);
          if (charge?.receipt === undefined) continue;
          expiries.set(op, at + timeout);
          const inFlight = [...expiries.values()].filter((expiry) => expiry > at).length;
          expect(inFlight).toBeLessThanOrEqual(rule.quota);
        }
      }),
      RUNS,
    );
  });
});

describe('a clock that steps back', () => {
  /** One window or one full refill, in microseconds; the bucket's in whole ticks. */
  function longest(policy: Policy): number {
    if ('capacity' in policy) {
      const { drain, unit, tick } = rateOf(pairOf(policy));
      return Number((BigInt(policy.capacity) * unit + drain - 1n) / drain + 1n) * Number(tick);
    }
    if (policy.algorithm === 'concurrency') return timeoutOf(policy);
    // A sliding window is whole again when its count is no longer the previous one.
    return windowOf(policy) * (policy.algorithm === 'sliding-window' ? 2 : 1);
  }

  test.each(ALGORITHMS)(
    '%s locks nobody out for longer than a window or a refill',
    (_, families) => {
      fc.assert(
        fc.property(families, starts, requests, (family, start, steps) => {
          const rules = rulesOf(family.slice(0, 1));
          const policy = rules[0]?.policy;
          if (policy === undefined) return;
          for (const { answer } of happen(new World(), rules, start, steps, false)) {
            const { resetAfterMs = 0, retryAfterMs = 0 } = answer?.verdicts[0] ?? {};
            expect(Math.round(resetAfterMs * 1_000)).toBeLessThanOrEqual(longest(policy));
            if (Number.isFinite(retryAfterMs))
              expect(retryAfterMs).toBeLessThanOrEqual(resetAfterMs);
          }
        }),
        RUNS,
      );
    },
  );
});

describe('old and new policy in turn', () => {
  test.each([tokenBuckets, leakyBuckets])(
    'buckets: no more than the more generous of them',
    (families) => {
      fc.assert(
        fc.property(families, starts, requests, (family, start, steps) => {
          const pairs = family.map((policy) => pairOf(policy));
          const rates = pairs.map(rateOf);
          const faster = (a: Rate, b: Rate): Rate =>
            a.drain * b.unit * b.tick > b.drain * a.unit * a.tick ? a : b;
          const fastest = rates.reduce(faster);
          const coarsest = rates.map(({ tick }) => tick).reduce((a, b) => (a > b ? a : b));
          const capacity = Math.max(...pairs.map(({ rule }) => rule.quota));
          // Debt saturates, and what one policy cannot count is lost to the other.
          fc.pre(pairs.every(({ terms }) => (terms as BucketTerms).counts(capacity)));
          const events = happen(new World(), rulesOf(family), start, steps, true);
          // An instant counts as the begin of its tick.
          expectDrained(timed(events, 1), capacity, fastest, coarsest === 1n ? 0n : coarsest);
        }),
        RUNS,
      );
    },
  );

  test.each([
    ['fixed window', fixedWindows, 1],
    ['sliding window', slidingWindows, 2],
    ['sliding log', slidingLogs, 1],
  ] as const)('%s: no policy admits more than it promises', (_, families, times) => {
    fc.assert(
      fc.property(families, starts, requests, (family, start, steps) => {
        const rules = rulesOf(family).filter(({ policy }) => !('spread' in policy));
        const made = admissions(happen(new World(), rules, start, steps, true));
        for (const { policy, quota } of rules) {
          const window = windowOf(policy);
          const aligned = policy.algorithm === 'fixed-window';
          const own = made.filter((admission) => admission.policy === policy);
          spans(own, (sum, first, last) => {
            const together = aligned
              ? Math.floor(first.at / window) === Math.floor(last.at / window)
              : last.at - first.at < window;
            if (together) expect(sum).toBeLessThanOrEqual(BigInt(times * quota));
          });
        }
      }),
      RUNS,
    );
  });
});
