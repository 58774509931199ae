import type { Decision } from '../decision.ts';
import { show, TollgateArgumentError } from '../errors.ts';
import type { MaybePromise } from '../maybe-promise.ts';
import type { Store } from '../store.ts';
import { HandOver } from './hand-over.ts';
import { listedKey, type LogKeys } from './listed-key.ts';
import { mostRefused } from './listing.ts';
import { HOUR_MS, Recent } from './recent.ts';
import type { MostRefusedOptions, RefusedKey } from './refused-key.ts';

const OPTIONS: readonly string[] = ['count', 'hours', 'fleet'];
const MOST_KEYS = 200;
const MOST_HOURS = 24;

/** Counts which keys a limiter refuses, in bounded memory, and hands the counts on to a store that adds them up. */
export class Refusals {
  private readonly store: Store;
  private readonly logKeys: LogKeys;
  private readonly limits = new Map<string, Recent>();
  /** That which refused last. */
  private latest: Recent | undefined;
  private readonly handOver: HandOver | undefined;
  private readonly shown = (key: string): string => listedKey(key, this.logKeys);
  /** The store's time of a refusal in the last second before the last, and when that was on the monotonic clock. */
  private lastAtMs = -Infinity;
  private lastAt = 0;

  constructor(store: Store, logKeys: LogKeys, onError: (error: unknown) => void) {
    this.store = store;
    this.logKeys = logKeys;
    if (store.tally !== undefined) this.handOver = new HandOver(store, this.shown, onError);
  }

  /** Counts who refuses a request, and which shadows would. That its store is out says nothing of a key. */
  add(decision: Decision): void {
    const { atMs } = decision;
    const charges = decision.charges();
    const only = charges.length === 1 ? charges[0] : undefined;
    if (only !== undefined && !decision.allowed && !decision.degraded) {
      // Nobody else can have refused it. Verdicts are worked out when they are read, which takes longer than this.
      this.count(only.name, false, only.key, atMs);
      return;
    }
    for (const { allowed, shadow, reason, name, key } of decision.verdicts) {
      if (allowed || reason === 'store-unavailable') continue;
      this.count(name, shadow, key, atMs);
    }
  }

  private count(name: string, shadow: boolean, key: string, atMs: number): void {
    // Keys that may not be shown are not kept either.
    const kept = this.logKeys === false ? '' : key;
    const { latest } = this;
    const limit = latest?.name === name ? latest : this.turnTo(name, shadow);
    limit.count(kept, atMs);
    this.handOver?.count(name, shadow, kept, atMs);
    // Looking at the clock takes as long as counting.
    if (atMs - this.lastAtMs >= 1_000 || atMs < this.lastAtMs) {
      this.lastAtMs = atMs;
      this.lastAt = performance.now();
    }
  }

  private turnTo(name: string, shadow: boolean): Recent {
    const limit = this.limits.get(name) ?? new Recent(name, shadow);
    this.limits.set(name, limit);
    this.latest = limit;
    return limit;
  }

  /** @throws TollgateArgumentError for a wrong option, or a store that keeps no list of the fleet. */
  most(
    names: readonly string[],
    options: MostRefusedOptions,
  ): readonly RefusedKey[] | Promise<readonly RefusedKey[]> {
    const { count = 20, hours = MOST_HOURS, fleet = false } = checked(options);
    if (fleet) return this.ofFleet(names, count, hours);
    // The store's time now, which may be a test's.
    const nowMs = this.lastAtMs + performance.now() - this.lastAt;
    const tallies = names.flatMap(
      (name) => this.limits.get(name)?.since(nowMs - hours * HOUR_MS, this.shown) ?? [],
    );
    return mostRefused(tallies, count);
  }

  /** Hands on what was not yet. Never throws, and rejects never. */
  close(): MaybePromise<void> {
    return this.handOver?.close();
  }

  private ofFleet(
    names: readonly string[],
    count: number,
    hours: number,
  ): Promise<readonly RefusedKey[]> {
    const { store } = this;
    const ask = store.mostRefused?.bind(store);
    if (ask === undefined || this.handOver === undefined) {
      throw new TollgateArgumentError(
        'The store keeps no list of what a fleet refuses, as redisStore() does; leave out fleet.',
      );
    }
    return Promise.resolve(this.handOver.handOn()).then(() => ask(names, count, hours));
  }
}

function checked(options: MostRefusedOptions): MostRefusedOptions {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateArgumentError(`mostRefused: expected options, got ${show(options)}.`);
  }
  for (const option of Object.keys(options)) {
    if (OPTIONS.includes(option)) continue;
    throw new TollgateArgumentError(
      `mostRefused: there is no option ${show(option)}; there are ${OPTIONS.join(', ')}.`,
    );
  }
  checkWhole(options.count, MOST_KEYS, 'count');
  checkWhole(options.hours, MOST_HOURS, 'hours');
  const fleet: unknown = options.fleet;
  if (fleet !== undefined && typeof fleet !== 'boolean') {
    throw new TollgateArgumentError(
      `mostRefused: fleet must be true or false, got ${show(fleet)}.`,
    );
  }
  return options;
}

function checkWhole(value: unknown, most: number, option: string): void {
  if (value === undefined) return;
  if (Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= most) return;
  throw new TollgateArgumentError(
    `mostRefused: ${option} must be a whole number from 1 to ${most}, got ${show(value)}.`,
  );
}
