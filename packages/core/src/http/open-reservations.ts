import { ruleOf } from '../algorithms/index.ts';
import type { BookedCharge } from '../booking.ts';
import type { Decision } from '../decision.ts';
import { concurrency } from '../policy.ts';

/** Stands behind a limit's name, and is in none. */
const SUFFIX = '.open';
/** More than any limit has reserved at once. A process that dies has its reservations counted for a minute more. */
const COUNT = ruleOf(concurrency({ limit: 1_000_000, slotTimeout: '60s' }));

/**
 * Counts a reservation in the store, among those of all processes, until it is released: a slot in the shadow, taken
 * together with the units that `charge` reserves. Otherwise no process would know whether a budget that others fill is
 * spent or may yet be given back.
 */
export function counterOf(charge: BookedCharge): BookedCharge {
  return charge.beside(SUFFIX, COUNT);
}

/** How many reservations of a limit's key are open by what the store says; 0 where it does not say. */
export function openBy({ verdicts }: Decision, { name }: Pick<BookedCharge, 'name'>): number {
  const counter = verdicts.find((verdict) => verdict.name === name + SUFFIX);
  return counter === undefined ? 0 : counter.limit - counter.remaining;
}

/** A decision as clients and applications are to see it. */
export function withoutCounters(decision: Decision): Decision {
  return decision.telling(({ name }) => !name.endsWith(SUFFIX));
}
