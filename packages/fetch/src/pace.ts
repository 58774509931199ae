import { TollgateWaitError } from '@tollgate/core';
import { jitterOn } from './delays.ts';
import type { RateLimitReading } from './headers/reading.ts';

/** How long a hold lasts at most; then one request asks how things stand. */
const LONGEST_HOLD_MS = 3_600_000;
/** How much later than the reset a hold ends at most. */
const MOST_JITTER_MS = 1_000;
/** setTimeout takes 31 bits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Someone who waits for a turn, or for a hold to end. Deadlines are moments of the monotonic clock. */
export interface Patience {
  readonly signal: AbortSignal;
  readonly deadline: number;
  readonly maxWaitMs: number;
}

interface Waiter {
  go(): void;
}

/**
 * What one provider lets the callers of one key send, as its answers say. Its callers stand in one line; the first of
 * them waits while nothing remains. After a hold one request goes ahead and asks, the others wait for its answer: nobody
 * knows how much is free then.
 */
export class Pace {
  private readonly random: () => number;
  private readonly line: Waiter[] = [];
  private taken = false;
  /** What may still be sent until `until`; undefined while the provider has said nothing that holds. */
  private left: number | undefined;
  private until = 0;
  /** A hold is over, and no answer has come since. */
  private asking = false;
  private inFlight = 0;
  private sent = 0;
  /** The latest departure whose answer was heeded. */
  private heard = 0;
  private wake: (() => void) | undefined;

  constructor(random: () => number) {
    this.random = random;
  }

  /** Whether it may be forgotten. */
  get idle(): boolean {
    return !this.taken && this.inFlight === 0 && !this.asking && performance.now() >= this.until;
  }

  /** Takes the turn, in order of arrival; a retry goes first. `leave` must follow. */
  enter(patience: Patience, first: boolean): Promise<void> {
    if (!this.taken) {
      this.taken = true;
      return Promise.resolve();
    }
    let waiter: Waiter | undefined;
    return patiently(patience, (done) => {
      waiter = { go: done };
      if (first) this.line.unshift(waiter);
      else this.line.push(waiter);
      return () => {
        const place = this.line.indexOf(waiter as Waiter);
        if (place !== -1) this.line.splice(place, 1);
      };
    });
  }

  /** Gives the turn to the next in line. */
  leave(): void {
    const next = this.line.shift();
    if (next === undefined) this.taken = false;
    else next.go();
  }

  /** Waits, with the turn, until a request may be sent. Rejects as soon as that cannot be in time. */
  async ready(patience: Patience): Promise<void> {
    for (let holdMs = this.holdMs(); holdMs > 0; holdMs = this.holdMs()) {
      const now = performance.now();
      // Nobody knows when an answer comes; a hold's end is known.
      if (holdMs !== Infinity && this.inFlight === 0 && now + holdMs > patience.deadline) {
        throw tooLate(patience.maxWaitMs, holdMs);
      }
      await patiently(patience, (done) => {
        this.wake = done;
        const timer =
          holdMs === Infinity
            ? undefined
            : setTimeout(done, Math.min(Math.ceil(holdMs) + 1, LONGEST_TIMER_MS));
        return () => {
          this.wake = undefined;
          clearTimeout(timer);
        };
      });
    }
  }

  /** How long nothing may be sent, in milliseconds; Infinity until an answer comes. */
  holdMs(): number {
    if (this.left === undefined) return this.asking && this.inFlight > 0 ? Infinity : 0;
    const leftMs = this.until - performance.now();
    if (leftMs > 0) return this.left > 0 ? 0 : leftMs;
    this.asking = this.left === 0;
    this.left = undefined;
    return this.holdMs();
  }

  /** Notes that a request is sent. Returns which one it is. */
  depart(): number {
    if (this.left !== undefined && this.left > 0) this.left--;
    this.inFlight++;
    return ++this.sent;
  }

  /** Heeds the answer to a request that was sent; undefined where there is none. */
  answered(departure: number, reading: RateLimitReading | undefined): void {
    this.inFlight--;
    if (reading !== undefined) this.heed(departure, reading);
    this.wake?.();
  }

  private heed(departure: number, { waitMs = 0, limits }: RateLimitReading): void {
    const now = performance.now();
    if (waitMs > 0) {
      const jitterMs = Math.min(MOST_JITTER_MS, jitterOn(waitMs)) * this.random();
      const until = now + Math.min(waitMs, LONGEST_HOLD_MS) + jitterMs;
      this.heard = Math.max(this.heard, departure);
      if (this.left === 0 && this.until > until) return;
      this.left = 0;
      this.until = until;
      return;
    }
    // An answer that was overtaken says how things stood before.
    if (departure < this.heard) return;
    this.heard = departure;
    this.asking = false;
    let least: { remaining: number; resetMs: number } | undefined;
    for (const { unit, remaining, resetMs } of limits) {
      if (unit !== 'requests' || remaining === undefined || resetMs === undefined) continue;
      if (least === undefined || remaining < least.remaining) least = { remaining, resetMs };
    }
    if (least === undefined || least.resetMs === 0) {
      this.left = undefined;
      return;
    }
    // Those under way may be counted already, or not: as if they were not, until their answers say.
    this.left = Math.max(0, least.remaining - this.inFlight);
    this.until = now + Math.min(least.resetMs, LONGEST_HOLD_MS);
  }
}

/** Waits for `begin` to call back, unless aborted or out of time before. `begin` returns what ends the waiting. */
function patiently(
  { signal, deadline, maxWaitMs }: Patience,
  begin: (done: () => void) => () => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const leftMs = deadline - performance.now();
    const settle = (): void => {
      end();
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => {
      settle();
      reject(signal.reason);
    };
    const expire = (): void => {
      settle();
      reject(tooLate(maxWaitMs, undefined));
    };
    const timer =
      leftMs <= LONGEST_TIMER_MS
        ? setTimeout(expire, Math.max(0, Math.ceil(leftMs)) + 1)
        : undefined;
    signal.addEventListener('abort', onAbort, { once: true });
    const end = begin(() => {
      settle();
      resolve();
    });
  });
}

function tooLate(maxWaitMs: number, holdMs: number | undefined): TollgateWaitError {
  const why =
    holdMs === undefined
      ? 'The callers before this one take longer'
      : `The server's own limit holds for ${Math.ceil(holdMs)} ms, longer`;
  return new TollgateWaitError(`${why} than maxWaitMs, which is ${maxWaitMs}.`, undefined);
}
