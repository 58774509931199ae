import type { Store } from '../store.ts';
import { ALL_OR_NOTHING } from './all-or-nothing.ts';
import { BANS } from './bans.ts';
import { CORRECTIONS } from './corrections.ts';
import { CROWDS } from './crowds.ts';
import { histories } from './histories.ts';
import { KEYS } from './keys.ts';
import { type ManualClock, manualClock } from './manual-clock.ts';
import { POLICY_CHANGES } from './policy-changes.ts';
import { REFUSED_KEYS } from './refused-keys.ts';
import { SLOTS } from './slots.ts';
import { TIMES } from './times.ts';
import { type Law, Trial } from './trial.ts';

export interface ConformanceOptions {
  /**
   * Makes the store to be tested, with nothing in it: a store that shares its state with others needs a prefix of its
   * own each time. It must go by `clock`, which answers integer microseconds since the epoch and also steps back. Calls
   * must not be given up early: what a slow machine cannot answer is reported as a violation.
   */
  readonly make: (clock: ManualClock) => Store | Promise<Store>;
  /** Put before the name of each case, to tell several stores apart; default none. */
  readonly tag?: string;
  /** What the random histories are drawn from, an integer; default 1. The same seed draws the same histories. */
  readonly seed?: number;
}

/** One law, to be run as a test of its own. */
export interface ConformanceCase {
  readonly name: string;
  /**
   * Makes a store, puts the law to it and closes it. The promise rejects with an AssertionError that says what the store
   * answered otherwise; with the store's own error where it throws one.
   */
  readonly run: () => Promise<void>;
}

/**
 * The laws that every store keeps, as cases for any test runner. They go through `createLimiter` and the `Store`
 * interface alone, and no case depends on another. A store without `ban` and `unban` keeps those of bans as it is.
 *
 * ```ts
 * for (const { name, run } of storeConformance({ make: (clock) => memoryStore({ clock }) })) test(name, run);
 * ```
 */
export function storeConformance(options: ConformanceOptions): readonly ConformanceCase[] {
  const { make, tag, seed = 1 } = options;
  const laws: readonly Law[] = [
    ...ALL_OR_NOTHING,
    ...TIMES,
    ...CORRECTIONS,
    ...SLOTS,
    ...BANS,
    ...REFUSED_KEYS,
    ...POLICY_CHANGES,
    ...KEYS,
    ...CROWDS,
    ...histories(seed),
  ];
  return laws.map(({ name, hold }) => ({
    name: tag === undefined ? name : `${tag}: ${name}`,
    run: async () => {
      const clock = manualClock();
      const trial = new Trial(await make(clock), clock);
      try {
        await hold(trial);
      } catch (error) {
        // Where the store failed, what followed from that is no news.
        trial.expectNoStoreError();
        throw error;
      } finally {
        await trial.close();
      }
      trial.expectNoStoreError();
    },
  }));
}
