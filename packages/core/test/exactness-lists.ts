import type { ConcurrencyPolicy } from '../src/policy.ts';
import { less, microseconds, min, type Seen, type Terms } from './exactness-terms.ts';

/** One instant per unit, oldest first, and the longest window that any of them was counted under. */
interface Log {
  readonly stamps: readonly bigint[];
  readonly window: bigint;
}

const EMPTY: Log = { stamps: [], window: 0n };

export class SlidingLogTerms implements Terms<Log, bigint> {
  readonly overdraws = false;
  readonly queues = false;
  readonly fresh: Log = EMPTY;
  readonly limit: bigint;
  private readonly window: bigint;

  constructor(limit: number, window: number) {
    this.limit = BigInt(limit);
    this.window = microseconds(window);
  }

  seen(log: Log, now: bigint): Seen<Log> {
    const window = log.window > this.window ? log.window : this.window;
    const [oldest, newest] = [log.stamps[0] ?? now, log.stamps.at(-1) ?? now];
    if (oldest > now - window && newest <= now) return { state: log, healed: false };
    const live = log.stamps.filter((stamp) => stamp > now - window);
    const stamps = live.map((stamp) => min(stamp, now));
    return { state: stamps.length === 0 ? EMPTY : { ...log, stamps }, healed: newest > now };
  }

  whole({ stamps }: Log): boolean {
    return stamps.length === 0;
  }

  admits({ stamps }: Log, cost: bigint): boolean {
    return this.limit > 0n && BigInt(stamps.length) + cost <= this.limit;
  }

  charge(log: Log, cost: bigint, now: bigint): { readonly state: Log; readonly receipt: bigint } {
    const units = Array.from({ length: Number(cost) }, () => now);
    const window = log.window > this.window ? log.window : this.window;
    return { state: { stamps: [...log.stamps, ...units], window }, receipt: now };
  }

  refund(log: Log, units: bigint): Log {
    return this.kept(log, log.stamps.slice(0, Number(less(BigInt(log.stamps.length), units))));
  }

  giveBack(log: Log, units: bigint, own: bigint): Log | undefined {
    if (!log.stamps.includes(own)) return undefined;
    let left = units;
    return this.kept(
      log,
      log.stamps.filter((stamp) => stamp !== own || left-- <= 0n),
    );
  }

  private kept(log: Log, stamps: readonly bigint[]): Log {
    return stamps.length === 0 ? EMPTY : { ...log, stamps };
  }
}

/** One place of a concurrency limit; the charge that took it is known by identity. */
interface Slot {
  readonly holder: object;
  readonly expiry: bigint;
}

export class ConcurrencyTerms implements Terms<readonly Slot[], object> {
  readonly overdraws = false;
  readonly queues = false;
  readonly fresh: readonly Slot[] = [];
  readonly limit: bigint;
  private readonly room: bigint;
  private readonly timeout: bigint;

  constructor({ limit, slotTimeout }: ConcurrencyPolicy, kept: number) {
    this.limit = BigInt(limit);
    this.room = less(this.limit, BigInt(kept));
    this.timeout = microseconds(slotTimeout);
  }

  seen(slots: readonly Slot[], now: bigint): Seen<readonly Slot[]> {
    const latest = now + this.timeout;
    const live = slots.filter(({ expiry }) => expiry > now);
    return {
      state: live.map((slot) => (slot.expiry > latest ? { ...slot, expiry: latest } : slot)),
      healed: live.some(({ expiry }) => expiry > latest),
    };
  }

  whole(slots: readonly Slot[]): boolean {
    return slots.length === 0;
  }

  admits(slots: readonly Slot[], cost: bigint): boolean {
    return this.room > 0n && BigInt(slots.length) + cost <= this.room;
  }

  charge(
    slots: readonly Slot[],
    _cost: bigint,
    now: bigint,
  ): { readonly state: readonly Slot[]; readonly receipt: object } {
    const holder = {};
    return { state: [...slots, { holder, expiry: now + this.timeout }], receipt: holder };
  }

  refund(slots: readonly Slot[]): readonly Slot[] {
    return slots;
  }

  giveBack(slots: readonly Slot[], _units: bigint, receipt: object): readonly Slot[] | undefined {
    const others = slots.filter(({ holder }) => holder !== receipt);
    return others.length === slots.length ? undefined : others;
  }

  /** The slots with another timeout for this one's, or undefined when it is no longer held. */
  renew(slots: readonly Slot[], receipt: object, now: bigint): readonly Slot[] | undefined {
    const others = this.giveBack(slots, 1n, receipt);
    return others && [...others, { holder: receipt, expiry: now + this.timeout }];
  }
}
