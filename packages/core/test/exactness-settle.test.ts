import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Rule } from '../src/algorithm.ts';
import type { Verdict } from '../src/verdict.ts';
import {
  type Family,
  fixedWindows,
  leakyBuckets,
  slidingLogs,
  slidingWindows,
  tokenBuckets,
} from './exactness-policies.ts';
import { fewSteps, pairOf, starts, type Step } from './exactness-steps.ts';
import { type Event, happen, type Op, World } from './exactness-world.ts';

const RUNS = { numRuns: 2_000 };

/** Nothing but reservations, charges, refunds and settlements downwards. */
const reservations = (refunds: boolean): fc.Arbitrary<Step[]> =>
  fewSteps.map((steps) =>
    steps.map((drawn): Step => {
      // Debt beyond what a window counts is lost.
      const step = drawn.cost === 'huge' && !refunds ? { ...drawn, cost: 'many' as const } : drawn;
      if (step.deed === 'settleUp' || step.deed === 'renew') return { ...step, deed: 'settleDown' };
      return step.deed === 'refund' && !refunds ? { ...step, deed: 'consume' } : step;
    }),
  );

const rulesOf = (family: Family): Rule[] => family.map((policy) => pairOf(policy).rule);

/** What was given back of each charge. */
function givenBack(events: readonly Event[]): Map<Op, number> {
  const units = new Map<Op, number>();
  for (const { op } of events) if (op.deed === 'settle' && op.of) units.set(op.of, -op.units);
  return units;
}

/**
 * The history in which only the actual costs were charged in the first place, and what all policies say of both in the
 * end; sooner, asking would give the stores occasion to forget a whole key. Where one of them charges, the other looks
 * and keeps what it sees, so that both have heard of the same steps of the clock and changes of the rate. Before a
 * settlement both do, so that it leaves no other trace than what it gives back.
 */
function compareWithActual(
  events: readonly Event[],
  rules: readonly Rule[],
  check: (settled: Verdict, actual: Verdict) => void,
): void {
  const [settled, actual] = [new World(), new World()];
  const back = givenBack(events);
  for (const { op } of events) {
    const look: Op = { ...op, deed: 'refund', units: 0, of: undefined };
    if (op.deed === 'settle') settled.do(look);
    const { charge } = settled.do(op);
    if (op.deed === 'refund') {
      actual.do(op);
    } else if (op.deed === 'settle') {
      actual.do(look);
    } else if (charge?.receipt !== undefined) {
      const units = op.units - (back.get(op) ?? 0);
      const { answer } = actual.do(units === 0 ? look : { ...op, units });
      // Who was admitted beside the reservation is admitted without it too.
      if (units > 0) expect(answer?.verdicts[0]?.allowed).toBe(true);
    } else if (op.deed !== 'peek') {
      actual.do({ ...op, deed: 'consume', units: 0 });
    }
  }
  const at = events.at(-1)?.op.at ?? 0;
  rules.forEach((rule, which) => {
    const peek: Op = { deed: 'peek', at, which, rule, units: 1, of: undefined };
    const [of, than] = [settled.do(peek), actual.do(peek)].map(({ answer }) => answer?.verdicts[0]);
    if (of !== undefined && than !== undefined) check(of, than);
  });
}

function owesNoLess(settled: Verdict, actual: Verdict): void {
  expect(settled.remaining).toBeLessThanOrEqual(actual.remaining);
  expect(settled.retryAfterMs).toBeGreaterThanOrEqual(actual.retryAfterMs);
  expect(settled.resetAfterMs).toBeGreaterThanOrEqual(actual.resetAfterMs);
}

describe('a settlement never gives back more than if the actual cost had been charged', () => {
  test.each([
    ['token bucket', tokenBuckets],
    ['leaky bucket', leakyBuckets],
  ] as const)('%s, whatever the clock and the policy do', (_, families) => {
    fc.assert(
      fc.property(families, starts, reservations(true), (family, start, steps) => {
        const rules = rulesOf(family);
        compareWithActual(happen(new World(), rules, start, steps, false), rules, owesNoLess);
      }),
      RUNS,
    );
  });

  test.each([
    ['fixed window', fixedWindows],
    ['sliding window', slidingWindows],
    ['sliding log', slidingLogs],
  ] as const)('%s', (_, families) => {
    fc.assert(
      fc.property(families, starts, reservations(false), (family, start, steps) => {
        const rules = rulesOf(family.slice(0, 1)).filter(({ quota }) => quota <= 2 ** 40);
        compareWithActual(happen(new World(), rules, start, steps, true), rules, owesNoLess);
      }),
      RUNS,
    );
  });
});
