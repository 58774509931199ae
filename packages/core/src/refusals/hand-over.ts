import { andThen, isPromise, type MaybePromise } from '../maybe-promise.ts';
import type { Store } from '../store.ts';
import { HeavyHitters } from './heavy-hitters.ts';
import { tallyOf } from './recent.ts';

/** How often counts are handed on, in milliseconds; each process at a time of its own. */
const EVERY_MS = 5_000;
/** Per limit and call, which keeps calls short. */
const COUNTERS = 100;

interface Pending {
  readonly name: string;
  readonly shadow: boolean;
  readonly keys: HeavyHitters;
}

/**
 * Hands what this process refused on to a store that adds it up for all processes: in the background, in one call every
 * five seconds at most, and only if something was refused. No call is made again, since it may have been carried out:
 * its counts are lost. While the store is known to be down counts stay here, in bounded memory.
 */
export class HandOver {
  private readonly store: Store;
  private readonly shown: (key: string) => string;
  private readonly onError: (error: unknown) => void;
  private pending = new Map<string, Pending>();
  /** That of them which was counted for last. */
  private latest: Pending | undefined;
  private timer: NodeJS.Timeout | undefined;
  private underWay: Promise<void> | undefined;
  private failed = false;
  private closed = false;

  constructor(store: Store, shown: (key: string) => string, onError: (error: unknown) => void) {
    this.store = store;
    this.shown = shown;
    this.onError = onError;
  }

  count(name: string, shadow: boolean, key: string, atMs: number): void {
    const { latest } = this;
    const limit = latest?.name === name ? latest : this.turnTo(name, shadow);
    limit.keys.count(key, atMs);
  }

  private turnTo(name: string, shadow: boolean): Pending {
    const known = this.pending.get(name);
    const limit = known ?? { name, shadow, keys: new HeavyHitters(COUNTERS) };
    this.latest = limit;
    if (known !== undefined) return known;
    this.pending.set(name, limit);
    this.arm();
    return limit;
  }

  /** Hands on what there is now. What fails is reported, and not thrown. */
  handOn(): MaybePromise<void> {
    if (this.underWay !== undefined) return this.underWay.then(() => this.handOn());
    const isUp = (this.store.health?.().store ?? 'up') === 'up';
    if (!isUp || this.pending.size === 0) return this.arm();
    const { pending } = this;
    this.pending = new Map();
    this.latest = undefined;
    const sent = this.send(pending);
    if (!isPromise(sent)) return undefined;
    this.underWay = sent.finally(() => {
      this.underWay = undefined;
      this.arm();
    });
    return this.underWay;
  }

  /** Hands on the rest, and no more. */
  close(): MaybePromise<void> {
    return andThen(this.handOn(), () => {
      this.closed = true;
      clearTimeout(this.timer);
    });
  }

  private arm(): void {
    if (this.timer !== undefined || this.closed || this.pending.size === 0) return;
    // A fleet that was started at once should not call at once.
    const afterMs = EVERY_MS * (1 + Math.random() / 5);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.handOn();
    }, afterMs).unref();
  }

  private send(pending: ReadonlyMap<string, Pending>): MaybePromise<void> {
    const tallies = [...pending].map(([name, { shadow, keys }]) =>
      tallyOf(name, shadow, keys, this.shown),
    );
    const failed = (error: unknown): void => {
      // Once until it works again: a missing right would be told of every five seconds.
      if (!this.failed) this.onError(error);
      this.failed = true;
    };
    const worked = (): void => {
      this.failed = false;
    };
    try {
      const done = this.store.tally?.(tallies);
      return isPromise(done) ? done.then(worked, failed) : worked();
    } catch (error) {
      return failed(error);
    }
  }
}
