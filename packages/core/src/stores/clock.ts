import { show, TollgateConfigError } from '../errors.ts';

const LATEST = 0;
const AHEAD = 1;

/** The system's clock, in µs, except that a step back is not taken: time goes on from where it was. */
export function steadyClock(): () => number {
  // Numbers this large would be allocated anew at every write anywhere but in a typed array.
  const time = new Float64Array(2);
  return () => {
    const now = Date.now() * 1_000 + (time[AHEAD] as number);
    const latest = time[LATEST] as number;
    if (now >= latest) return (time[LATEST] = now);
    time[AHEAD] = latest - now + (time[AHEAD] as number);
    return latest;
  };
}

/** A clock given as an option, checked at every reading. */
export function checkedClock(clock: () => number): () => number {
  if (typeof clock !== 'function') {
    throw new TollgateConfigError('clock', `expected a function, got ${show(clock)}`);
  }
  return () => {
    const now = clock();
    if (Number.isSafeInteger(now) && now >= 0) return now;
    throw new TollgateConfigError(
      'clock',
      `expected integer microseconds since the epoch, got ${show(now)}`,
    );
  };
}
