import {
  divideUp,
  LARGEST,
  less,
  microseconds,
  min,
  type Seen,
  type Terms,
  TICKS,
} from './exactness-terms.ts';

/** The most that a window counts. */
const MOST_UNITS = LARGEST;

/** The window in which the units were counted; undefined when there are none. */
type Counted =
  | {
      readonly start: bigint;
      readonly end: bigint;
      readonly count: bigint;
      /** The time since which there are any. Receipts of another era are worth nothing. */
      readonly era: object;
    }
  | undefined;

export class FixedWindowTerms implements Terms<Counted, object> {
  readonly overdraws = true;
  readonly queues = false;
  readonly fresh: Counted = undefined;
  readonly limit: bigint;
  private readonly window: bigint;

  constructor(limit: number, window: number) {
    this.limit = BigInt(limit);
    this.window = microseconds(window);
  }

  seen(counted: Counted, now: bigint, offset: bigint): Seen<Counted> {
    if (counted === undefined || now >= counted.end || counted.count === 0n) {
      return { state: undefined, healed: false };
    }
    return now < counted.start
      ? { state: { ...counted, ...this.around(now, offset) }, healed: true }
      : { state: counted, healed: false };
  }

  whole(counted: Counted): boolean {
    return counted === undefined || counted.count === 0n;
  }

  admits(counted: Counted, cost: bigint): boolean {
    return this.limit > 0n && (counted?.count ?? 0n) + cost <= this.limit;
  }

  charge(
    counted: Counted,
    cost: bigint,
    now: bigint,
    offset: bigint,
  ): { readonly state: Counted; readonly receipt: object } {
    const own = this.around(now, offset);
    const kept = counted !== undefined && counted.end >= own.end ? counted : own;
    const era = counted?.era ?? {};
    const state = { ...kept, era, count: min((counted?.count ?? 0n) + cost, MOST_UNITS) };
    return { state, receipt: era };
  }

  refund(counted: Counted, units: bigint): Counted {
    return counted && { ...counted, count: less(counted.count, units) };
  }

  giveBack(counted: Counted, units: bigint, era: object): Counted {
    if (counted === undefined || this.whole(counted)) return undefined;
    return counted.era === era ? this.refund(counted, units) : undefined;
  }

  private around(now: bigint, offset: bigint): { readonly start: bigint; readonly end: bigint } {
    const start = ((now + offset) / this.window) * this.window - offset;
    return { start, end: start + this.window };
  }
}

/** Two neighbouring windows; undefined when there are no units in them. */
type Sliding =
  | {
      readonly start: bigint;
      readonly window: bigint;
      readonly count: bigint;
      readonly previous: bigint;
      /** For each of the two counts, the time since which there are any units in it. */
      readonly era: object;
      readonly previousEra: object;
    }
  | undefined;

export class SlidingWindowTerms implements Terms<Sliding, object> {
  readonly overdraws = true;
  readonly queues = false;
  readonly fresh: Sliding = undefined;
  readonly limit: bigint;
  private readonly window: bigint;

  constructor(limit: number, window: number) {
    this.limit = BigInt(limit);
    this.window = microseconds(window);
  }

  seen(sliding: Sliding, now: bigint): Seen<Sliding> {
    if (sliding === undefined || this.whole(sliding)) return { state: undefined, healed: false };
    const { start, window, count, era } = sliding;
    if (now < start) return { state: { ...sliding, start: (now / window) * window }, healed: true };
    if (now < start + window) return { state: sliding, healed: false };
    const next = {
      start: start + window,
      window,
      count: 0n,
      previous: count,
      era: {},
      previousEra: era,
    };
    const state = now < next.start + window && count > 0n ? next : undefined;
    return { state, healed: false };
  }

  whole(sliding: Sliding): boolean {
    return sliding === undefined || (sliding.count === 0n && sliding.previous === 0n);
  }

  admits(sliding: Sliding, cost: bigint, now: bigint): boolean {
    if (this.limit === 0n || cost > this.limit) return false;
    if (sliding === undefined) return true;
    const { ticks, left } = this.left(sliding, now);
    const limit = min(this.limit, LARGEST / ticks);
    return (sliding.count + cost) * ticks + sliding.previous * left <= limit * ticks;
  }

  charge(
    sliding: Sliding,
    cost: bigint,
    now: bigint,
  ): { readonly state: Sliding; readonly receipt: object } {
    const own = {
      start: (now / this.window) * this.window,
      window: this.window,
      previous: 0n,
      era: {},
      previousEra: {},
    };
    let before = sliding ?? { ...own, count: 0n };
    if (before.window < this.window) {
      const { ticks, left } = this.left(before, now);
      before = { ...own, count: before.count + divideUp(before.previous * left, ticks) };
    }
    const era = before.count === 0n ? {} : before.era;
    const state = { ...before, era, count: min(before.count + cost, MOST_UNITS) };
    return { state, receipt: era };
  }

  refund(sliding: Sliding, units: bigint): Sliding {
    if (sliding === undefined) return undefined;
    const { count, previous } = sliding;
    return {
      ...sliding,
      count: less(count, units),
      previous: less(previous, less(units, count)),
    };
  }

  giveBack(sliding: Sliding, units: bigint, era: object): Sliding {
    if (sliding === undefined) return undefined;
    if (sliding.era === era && sliding.count > 0n) {
      return { ...sliding, count: less(sliding.count, units) };
    }
    return sliding.previousEra === era && sliding.previous > 0n
      ? { ...sliding, previous: less(sliding.previous, units) }
      : undefined;
  }

  /** The window's length and what is left of it, in the finest ticks in which the estimate can be compared. */
  private left(
    { start, window }: NonNullable<Sliding>,
    now: bigint,
  ): { readonly ticks: bigint; readonly left: bigint } {
    const fits = (tick: bigint): boolean =>
      window % tick === 0n && this.limit * (window / tick) <= LARGEST;
    const tick = TICKS.find(fits) ?? 1n;
    return { ticks: window / tick, left: window / tick - (now - start) / tick };
  }
}
