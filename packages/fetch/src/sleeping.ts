/** setTimeout takes 31 bits and fires at once for more; a longer sleep is taken in parts. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A timer may fire up to a millisecond early, hence the one on top. */
const SLACK_MS = 1;

/**
 * Sleeps at least `ms` milliseconds, by the monotonic clock.
 *
 * @param signal ends the sleep early: the promise rejects with its reason.
 */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const wakeAt = performance.now() + ms;
    let timer: ReturnType<typeof setTimeout>;
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const set = (): void => {
      const leftMs = wakeAt - performance.now();
      if (leftMs > 0) {
        timer = setTimeout(set, Math.min(Math.ceil(leftMs) + SLACK_MS, LONGEST_TIMER_MS));
        return;
      }
      signal.removeEventListener('abort', onAbort);
      resolve();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    set();
  });
}
