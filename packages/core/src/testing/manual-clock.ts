import { show, TollgateArgumentError } from '../errors.ts';

/** The start of the year 2026. */
const START_MS = 1_767_225_600_000;

/** A clock that stands still until it is moved: a function to give to a store as its `clock`. */
export interface ManualClock {
  /** The time, in integer microseconds since the epoch. */
  (): number;
  /**
   * Moves the clock by milliseconds, which may have a fraction down to the microsecond; below 0 it steps back.
   *
   * @throws TollgateArgumentError where that is no number, or leads before the epoch.
   */
  advance(ms: number): void;
  /**
   * Sets the clock to milliseconds since the epoch, which may have a fraction down to the microsecond.
   *
   * @throws TollgateArgumentError for anything but a number of 0 or more.
   */
  set(ms: number): void;
}

/**
 * A clock for tests that have time pass without waiting for it: `memoryStore({ clock: manualClock() })`.
 *
 * @param startMs milliseconds since the epoch; default the start of the year 2026.
 * @throws TollgateArgumentError for anything but a number of 0 or more.
 */
export function manualClock(startMs: number = START_MS): ManualClock {
  let now = 0;
  const moveTo = (us: number, ms: unknown): void => {
    if (!Number.isSafeInteger(us) || us < 0) {
      throw new TollgateArgumentError(
        `A clock shows milliseconds since the epoch, 0 or more; ${show(ms)} leads to none.`,
      );
    }
    now = us;
  };
  const micros = (ms: unknown): number => (typeof ms === 'number' ? Math.round(ms * 1_000) : NaN);
  const clock = Object.assign((): number => now, {
    advance: (ms: number): void => moveTo(now + micros(ms), ms),
    set: (ms: number): void => moveTo(micros(ms), ms),
  });
  clock.set(startMs);
  return clock;
}
