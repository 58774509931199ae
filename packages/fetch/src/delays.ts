/** How long the waits between attempts are. */
export interface Backoff {
  readonly baseMs: number;
  readonly maxBackoffMs: number;
  /** The longest delay. */
  readonly maxDelayMs: number;
  /** From 0 up to and without 1. */
  readonly random: () => number;
}

/** Up to this long a server's wait is spread by a quarter of it, what goes beyond by a half. */
const SHORT_WAIT_MS = 3_000;

/** How many moments are drawn for each retry. */
const CANDIDATES = 16;

/**
 * The moments at which retries of this process are due, by the monotonic clock. They are kept apart: callers who were
 * all refused at once are told the same wait, and must not come back at once.
 */
const due: number[] = [];

/**
 * The wait before an attempt, in milliseconds. With no time from the server: exponential, with full jitter. With one:
 * never less, and jitter on top, which grows with every refusal too.
 *
 * @param retry how many retries were made before this one.
 * @param serverMs what the server asks for; undefined or 0 when it names no time.
 */
export function delayBefore(retry: number, serverMs: number | undefined, backoff: Backoff): number {
  const { baseMs, maxBackoffMs, maxDelayMs, random } = backoff;
  const cap = Math.min(maxBackoffMs, maxDelayMs, baseMs * 2 ** retry);
  if (serverMs === undefined || serverMs === 0) {
    // Never at once: a server that says 0 would be asked again and again.
    const least = Math.min(baseMs / 10, cap);
    return spread(least, cap, random);
  }
  const longest = Math.max(
    serverMs,
    Math.min(maxDelayMs, serverMs + Math.max(cap, jitterOn(serverMs))),
  );
  return spread(serverMs, longest, random);
}

/** How much later than asked those come back who were told to wait. A longer wait gathers more of them. */
export function jitterOn(serverMs: number): number {
  return Math.min(serverMs, SHORT_WAIT_MS) / 4 + Math.max(0, serverMs - SHORT_WAIT_MS) / 2;
}

/** Draws a delay between two bounds: of several the one that is due farthest from all others. */
function spread(leastMs: number, mostMs: number, random: () => number): number {
  const now = performance.now();
  // Only those that are still to come matter.
  due.splice(0, placeOf(now));
  let farthest = -1;
  let chosen = leastMs;
  for (let i = 0; i < CANDIDATES && farthest !== Infinity; i++) {
    const delay = leastMs + random() * (mostMs - leastMs);
    const place = placeOf(now + delay);
    const before = now + delay - (due[place - 1] ?? -Infinity);
    const after = (due[place] ?? Infinity) - (now + delay);
    const distance = Math.min(before, after);
    if (distance <= farthest) continue;
    farthest = distance;
    chosen = delay;
  }
  due.splice(placeOf(now + chosen), 0, now + chosen);
  return chosen;
}

/** Where a moment belongs among those that are due. */
function placeOf(moment: number): number {
  let low = 0;
  let high = due.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((due[middle] ?? 0) < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
