import { HeavyHitters } from './heavy-hitters.ts';
import type { Tally } from './refused-key.ts';

export const HOUR_MS = 3_600_000;
/** The last 24, and the one that has begun. */
export const HOURS_KEPT = 25;
/** Per limit and hour: no key with more than half a percent of an hour's refusals is missing. */
const COUNTERS = 200;

interface Hour {
  readonly fromMs: number;
  readonly toMs: number;
  readonly keys: HeavyHitters;
}

/** What a limit refused in the last day, hour by hour. */
export class Recent {
  readonly name: string;
  readonly shadow: boolean;
  private readonly hours: Hour[] = [];
  /** The one that was counted in last. */
  private current: Hour | undefined;

  constructor(name: string, shadow: boolean) {
    this.name = name;
    this.shadow = shadow;
  }

  count(key: string, atMs: number): void {
    const { current } = this;
    const isIn = current !== undefined && atMs >= current.fromMs && atMs < current.toMs;
    const hour = isIn ? current : this.turnTo(Math.floor(atMs / HOUR_MS) * HOUR_MS);
    hour.keys.count(key, atMs);
  }

  /** What was refused in an hour that is not over at `sinceMs`, or in a later one. */
  since(sinceMs: number, shown: (key: string) => string): Tally[] {
    return this.hours
      .filter(({ toMs }) => toMs > sinceMs)
      .map(({ keys }) => tallyOf(this.name, this.shadow, keys, shown));
  }

  /** The clock may have stepped back into an hour that was over. */
  private turnTo(fromMs: number): Hour {
    const known = this.hours.find((each) => each.fromMs === fromMs);
    const current = known ?? { fromMs, toMs: fromMs + HOUR_MS, keys: new HeavyHitters(COUNTERS) };
    this.current = current;
    if (known === undefined) this.hours.push(current);
    if (this.hours.length > HOURS_KEPT) this.hours.shift();
    return current;
  }
}

/** What a sketch says, its keys as they may be shown. */
export function tallyOf(
  name: string,
  shadow: boolean,
  keys: HeavyHitters,
  shown: (key: string) => string,
): Tally {
  return {
    name,
    shadow,
    missed: keys.missed,
    keys: keys.top(COUNTERS).map(({ key, count, atLeast, first, last }) => ({
      key: shown(key),
      count: atLeast,
      error: count - atLeast,
      firstMs: Math.floor(first),
      lastMs: Math.floor(last),
    })),
  };
}
