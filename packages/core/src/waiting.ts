import { dueAfterMs, mayBookAhead } from './book-ahead.ts';
import type { Decision } from './decision.ts';
import type { MaybePromise } from './maybe-promise.ts';

/** A wait that ended without admission: it could not be in time. */
export class TollgateWaitError extends Error {
  override readonly name = 'TollgateWaitError';
  readonly code = 'TOLLGATE_WAIT';
  /** The refusal that ended the wait. */
  readonly decision: Decision | undefined;

  constructor(message: string, decision: Decision | undefined) {
    super(message);
    this.decision = decision;
  }
}

/** A line of those who wait: one for each limit and key. */
export interface Line {
  readonly name: string;
  readonly key: string;
}

/** A name has no line break, so no two lines are named alike. */
function nameOf({ name, key }: Line): string {
  return `${name}\n${key}`;
}

export interface Ticket {
  /** The lines to stand in. */
  readonly lines: readonly Line[];
  /** How long to wait at most, in milliseconds. */
  readonly maxWaitMs: number;
  readonly signal: AbortSignal | undefined;
  /** Whether other processes may wait for the same, of whom nobody here is told. */
  readonly shared: boolean;
  attempt(): MaybePromise<Decision>;
  peek(): MaybePromise<Decision>;
  /** Charges even into debt. */
  charge(): MaybePromise<Decision>;
  /** What a cost of 0 would be told: it is admitted once the debt is paid. */
  peekDebt(): MaybePromise<Decision>;
  /** Gives back an admission that came too late. */
  cancel(decision: Decision): MaybePromise<void>;
}

interface Waiter extends Omit<Ticket, 'lines'> {
  readonly lines: readonly string[];
  readonly deadline: number;
  trying: boolean;
  /** Something was given back while the store was asked. */
  nudged: boolean;
  /** Charged, and sleeping for its delay, or until what it booked ahead is there. */
  admitted: Decision | undefined;
  bookedAhead: boolean;
  /** How long to wait at the next look for a slot. */
  lookMs: number;
  timer: NodeJS.Timeout | undefined;
  admit(decision: Decision): void;
  fail(error: unknown): void;
}

/** setTimeout takes 31 bits; a longer sleep is taken in parts. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** At most so long after it may be admitted one asks who waits for what others wait for, too. */
const MOST_APART_MS = 50;
const FIRST_LOOK_MS = 10;
const LAST_LOOK_MS = 250;
const SLOWER = 1.5;

/**
 * Those who wait to be admitted, in order of arrival for each key: only the first in line asks, so that nobody
 * overtakes and a hundred waiters ask no more than one.
 */
export class WaitingLines {
  private readonly lines = new Map<string, Waiter[]>();

  /** Waits for admission. Rejects when aborted, when closed, or as soon as it cannot be in time. */
  join(ticket: Ticket): Promise<Decision> {
    return new Promise((resolve, reject) => {
      const { signal } = ticket;
      const leave = (): void => {
        clearTimeout(waiter.timer);
        clearTimeout(expiry);
        signal?.removeEventListener('abort', onAbort);
        this.leave(waiter);
      };
      const waiter: Waiter = {
        ...ticket,
        lines: ticket.lines.map(nameOf),
        deadline: performance.now() + ticket.maxWaitMs,
        trying: false,
        nudged: false,
        admitted: undefined,
        bookedAhead: false,
        lookMs: FIRST_LOOK_MS,
        timer: undefined,
        admit: (decision) => {
          leave();
          resolve(decision);
        },
        fail: (error) => {
          // Before the next in line is asked: a place is given back only while nothing stands behind it.
          if (waiter.admitted !== undefined) void ticket.cancel(waiter.admitted);
          leave();
          reject(error);
        },
      };
      const onAbort = (): void => waiter.fail(signal?.reason);
      let expiry: NodeJS.Timeout | undefined;
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener('abort', onAbort, { once: true });
      for (const name of waiter.lines) {
        const line = this.lines.get(name);
        if (line === undefined) this.lines.set(name, [waiter]);
        else line.push(waiter);
      }
      if (this.isFirst(waiter)) return void this.ask(waiter);
      // Those ahead may take until the deadline; what cannot be in time even alone is refused at once.
      if (ticket.maxWaitMs <= LONGEST_TIMER_MS) {
        expiry = setTimeout(
          () => waiter.fail(tooLate(ticket.maxWaitMs, undefined)),
          ticket.maxWaitMs,
        );
      }
      void this.screen(waiter);
    });
  }

  /** Lets those at the front of these lines ask again, since something was given back. */
  nudge(lines: readonly Line[]): void {
    if (this.lines.size > 0) this.wake(lines.map(nameOf));
  }

  /** Lets those at the front of every line ask again. */
  nudgeAll(): void {
    this.wake([...this.lines.keys()]);
  }

  private wake(lines: readonly string[]): void {
    for (const first of new Set(lines.map((name) => this.lines.get(name)?.[0]))) {
      if (first === undefined || !this.isFirst(first)) continue;
      if (first.admitted !== undefined) {
        if (first.bookedAhead) void this.serveIfPaid(first, first.admitted);
        continue;
      }
      clearTimeout(first.timer);
      first.nudged = true;
      void this.ask(first);
    }
  }

  /** Ends every wait. */
  close(error: Error): void {
    const waiters = new Set([...this.lines.values()].flat());
    // Nobody is next.
    this.lines.clear();
    for (const waiter of waiters) waiter.fail(error);
  }

  private isFirst(waiter: Waiter): boolean {
    return waiter.lines.every((name) => this.lines.get(name)?.[0] === waiter);
  }

  private isWaiting(waiter: Waiter): boolean {
    return waiter.lines.every((name) => this.lines.get(name)?.includes(waiter) === true);
  }

  private async screen(waiter: Waiter): Promise<void> {
    try {
      const decision = await waiter.peek();
      const late = !mayBeInTime(decision, waiter.maxWaitMs);
      if (late && this.isWaiting(waiter)) waiter.fail(tooLate(waiter.maxWaitMs, decision));
    } catch (error) {
      waiter.fail(error);
    }
  }

  private async ask(waiter: Waiter): Promise<void> {
    if (waiter.trying) return;
    waiter.trying = true;
    try {
      let decision: Decision;
      do {
        waiter.nudged = false;
        decision = await waiter.attempt();
        // What was given back meanwhile may have come too late for this answer.
      } while (waiter.nudged && !decision.allowed && this.isWaiting(waiter));
      const leftMs = Math.max(0, waiter.deadline - performance.now());
      if (!this.isWaiting(waiter)) {
        // Aborted while the store was asked.
        await waiter.cancel(decision);
      } else if (decision.allowed && decision.delayMs <= leftMs) {
        waiter.admitted = decision;
        this.sleep(waiter, decision.delayMs, () => waiter.admit(decision));
      } else if (decision.allowed) {
        await waiter.cancel(decision);
        waiter.fail(tooLate(waiter.maxWaitMs, decision));
      } else if (!mayBeInTime(decision, leftMs)) {
        waiter.fail(tooLate(waiter.maxWaitMs, decision));
      } else if (!waiter.shared || !mayBookAhead(decision) || !(await this.bookAhead(waiter))) {
        const waitMs = waiter.shared ? apart(waiter, decision) : decision.retryAfterMs;
        this.sleep(waiter, Math.min(waitMs, leftMs), () => void this.ask(waiter));
      }
    } catch (error) {
      waiter.fail(error);
    } finally {
      waiter.trying = false;
    }
  }

  /**
   * Takes a place in line at the store, before those who ask there later, whatever process they are in. Returns whether
   * the store gave one, or the wait is over.
   */
  private async bookAhead(waiter: Waiter): Promise<boolean> {
    const booked = await waiter.charge();
    const isBooked = booked.allowed && booked.source === 'store';
    const dueMs = dueAfterMs(booked);
    const isLate = dueMs > waiter.deadline - performance.now();
    if (!isBooked || isLate || !this.isWaiting(waiter)) {
      await waiter.cancel(booked);
      if (isBooked && isLate) waiter.fail(tooLate(waiter.maxWaitMs, booked));
      return isBooked;
    }
    waiter.admitted = booked;
    waiter.bookedAhead = true;
    this.sleep(waiter, dueMs, () => waiter.admit(booked));
    return true;
  }

  /** Serves one who booked ahead when something was given back, if that was enough. */
  private async serveIfPaid(waiter: Waiter, booked: Decision): Promise<void> {
    if (waiter.trying) return;
    waiter.trying = true;
    try {
      const { allowed, delayMs } = await waiter.peekDebt();
      if (allowed && delayMs === 0 && this.isWaiting(waiter)) waiter.admit(booked);
    } catch (error) {
      waiter.fail(error);
    } finally {
      waiter.trying = false;
    }
  }

  /** A timer may fire up to a millisecond early, hence the one on top. */
  private sleep(waiter: Waiter, ms: number, then: () => void): void {
    if (ms <= 0) return then();
    const part = Math.min(Math.ceil(ms) + 1, LONGEST_TIMER_MS);
    waiter.timer = setTimeout(() => this.sleep(waiter, ms - part, then), part);
  }

  private leave(waiter: Waiter): void {
    const next = new Set<Waiter>();
    for (const name of waiter.lines) {
      const line = this.lines.get(name) ?? [];
      const place = line.indexOf(waiter);
      if (place !== -1) line.splice(place, 1);
      if (line.length === 0) this.lines.delete(name);
      else if (place === 0) next.add(line[0] as Waiter);
    }
    for (const first of next) if (this.isFirst(first)) void this.ask(first);
  }
}

/** Whether a refused request may be admitted within `leftMs`. A slot may be released long before its timeout. */
function mayBeInTime({ binding, retryAfterMs }: Decision, leftMs: number): boolean {
  if (retryAfterMs === Infinity) return false;
  return retryAfterMs <= leftMs || (leftMs > 0 && binding?.policy.algorithm === 'concurrency');
}

/**
 * When to ask again where others wait in other processes: not all at one instant, so that none of them is always the
 * last. A slot may be released there at any moment, so it is looked for, less and less often.
 */
function apart(waiter: Waiter, { verdicts, retryAfterMs }: Decision): number {
  const forSlot = verdicts.some(
    ({ allowed, shadow, policy }) => !allowed && !shadow && policy.algorithm === 'concurrency',
  );
  if (!forSlot) return retryAfterMs + Math.random() * Math.min(MOST_APART_MS, retryAfterMs / 10);
  const { lookMs } = waiter;
  waiter.lookMs = Math.min(LAST_LOOK_MS, lookMs * SLOWER);
  return Math.min(retryAfterMs, lookMs * (0.5 + Math.random()));
}

function tooLate(maxWaitMs: number, decision: Decision | undefined): TollgateWaitError {
  return new TollgateWaitError(
    decision?.retryAfterMs === Infinity
      ? 'This cost can never be admitted; lower the cost or raise the quota.'
      : `Cannot be admitted within ${maxWaitMs} ms.`,
    decision,
  );
}
