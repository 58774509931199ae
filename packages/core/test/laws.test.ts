import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Rule } from '../src/algorithm.ts';
import type { Verdict } from '../src/verdict.ts';
import { ALGORITHMS, type Family } from './exactness-policies.ts';
import { fewSteps, LAST_INSTANT, pairOf, starts } from './exactness-steps.ts';
import { type Event, happen, type Op, said, World } from './exactness-world.ts';

const RUNS = { numRuns: 400 };

const rulesOf = (family: Family) => family.map((policy) => pairOf(policy).rule);

/** What a verdict calls milliseconds, in the microseconds that it was made of. */
const microseconds = (ms: number): number => Math.round(ms * 1_000);

/**
 * Without the changes that let a clock seem to step back: another `spread` sets a key's clock, and another
 * slotTimeout moves expiries.
 */
function sameClock(family: Family): Family {
  const [first] = family;
  return family.filter((policy) => {
    if (policy.algorithm === 'fixed-window' && first?.algorithm === 'fixed-window') {
      return policy.spread === first.spread;
    }
    return policy.algorithm === 'concurrency' && first?.algorithm === 'concurrency'
      ? policy.slotTimeout === first.slotTimeout
      : true;
  });
}

/** What a world without the ops that `leave` picks says of all others. */
function without(events: readonly Event[], leave: (event: Event) => boolean): void {
  const other = new World();
  for (const event of events) {
    if (leave(event)) continue;
    expect(said(other.do(event.op))).toBe(said(event));
  }
}

/** A peek does not keep that the clock stepped back, so what it announces then is not to be held to. */
function settledAt(world: World, rule: Rule, events: readonly Event[], start: number): number {
  const at = events.at(-1)?.op.at ?? start;
  world.do({ deed: 'consume', at, which: 0, rule, units: 0, of: undefined });
  return at;
}

const allowed = ({ answer }: Event): boolean => answer?.verdicts[0]?.allowed === true;

describe.each(ALGORITHMS)('%s', (_, families) => {
  test('what is announced comes true, and not a microsecond sooner', () => {
    fc.assert(
      fc.property(families, starts, fewSteps, fc.nat(100), (family, start, steps, part) => {
        const world = new World();
        const rules = rulesOf(family);
        const [rule] = rules;
        if (rule === undefined) return;
        const now = settledAt(world, rule, happen(world, rules, start, steps, false), start);
        const peek = (at: number, units: number): Verdict => {
          const op: Op = { deed: 'peek', at, which: 0, rule, units, of: undefined };
          return world.do(op).answer?.verdicts[0] as Verdict;
        };
        const { remaining, nextAfterMs, resetAfterMs } = peek(now, 1);
        const reset = microseconds(resetAfterMs);
        const whole = resetAfterMs === 0;
        const probes: { at: number; holds: () => boolean; what: string }[] = [];
        const announce = (what: string, after: number, holds: (at: number) => boolean): void => {
          // Beyond, milliseconds no longer tell the microsecond.
          if (after > 2 ** 51) return;
          const [at, before] = [now + after, now + after - 1];
          probes.push({ at, holds: () => holds(at), what });
          if (after > 0) {
            probes.push({ at: before, holds: () => !holds(before), what: `${what}, not sooner` });
          }
        };
        for (const cost of [1, remaining + 1, rule.quota, Math.ceil((rule.quota * part) / 100)]) {
          const { allowed, retryAfterMs } = peek(now, cost);
          expect(allowed).toBe(retryAfterMs === 0);
          if (cost > 0) expect(allowed).toBe(cost <= remaining);
          if (Number.isFinite(retryAfterMs)) {
            const wait = microseconds(retryAfterMs);
            announce(`retryAfter of ${cost}`, wait, (at) => peek(at, cost).allowed);
          } else {
            const at = now + reset;
            probes.push({ at, holds: () => !peek(at, cost).allowed, what: `never ${cost}` });
          }
        }
        announce('resetAfter', reset, (at) => peek(at, 0).resetAfterMs === 0);
        if (whole || Number.isFinite(nextAfterMs)) {
          const next = microseconds(nextAfterMs);
          expect(next === 0).toBe(whole);
          if (!whole) announce('nextAfter', next, (at) => peek(at, 0).remaining > remaining);
        }
        // In the order of time, so that the clock does not step back.
        for (const { at, holds, what } of probes.toSorted((a, b) => a.at - b.at)) {
          expect(holds(), `${what}, at ${at}`).toBe(true);
        }
      }),
      RUNS,
    );
  });

  test('after resetAfter a key is as if never seen', () => {
    fc.assert(
      fc.property(families, starts, fewSteps, fewSteps, (family, start, steps, later) => {
        const world = new World();
        const rules = rulesOf(family);
        const [rule] = rules;
        if (rule === undefined) return;
        const now = settledAt(world, rule, happen(world, rules, start, steps, false), start);
        const op: Op = { deed: 'peek', at: now, which: 0, rule, units: 0, of: undefined };
        const reset = world.do(op).answer?.verdicts[0]?.resetAfterMs ?? 0;
        const from = now + microseconds(reset);
        fc.pre(from <= LAST_INSTANT);
        without(happen(world, [rule], from, later, true), () => false);
      }),
      RUNS,
    );
  });

  test('a peek changes nothing, wherever the clock stood', () => {
    fc.assert(
      fc.property(families, starts, fewSteps, (family, start, steps) => {
        const events = happen(new World(), rulesOf(family), start, steps, false);
        without(events, ({ op }) => op.deed === 'peek');
      }),
      RUNS,
    );
  });

  test('a refusal and a cost of 0 change nothing', () => {
    fc.assert(
      fc.property(families, starts, fewSteps, (family, start, steps) => {
        const rules = rulesOf(sameClock(family));
        const events = happen(new World(), rules, start, steps, true);
        without(
          events,
          (event) => event.answer !== undefined && (event.op.units === 0 || !allowed(event)),
        );
      }),
      RUNS,
    );
  });
});
