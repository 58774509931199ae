import type { ConcurrencyPolicy } from '../src/policy.ts';
import { less, microseconds, min, type Seen, type Terms } from './exactness-terms.ts';

/** One instant per unit, oldest first. */
type Log = readonly bigint[];

export class SlidingLogTerms implements Terms<Log, bigint> {
  readonly overdraws = false;
  readonly queues = false;
  readonly fresh: Log = [];
  readonly limit: bigint;
  private readonly window: bigint;

  constructor(limit: number, window: number) {
    this.limit = BigInt(limit);
    this.window = microseconds(window);
  }

  seen(log: Log, now: bigint): Seen<Log> {
    const [oldest, newest] = [log[0] ?? now, log.at(-1) ?? now];
    if (oldest > now - this.window && newest <= now) return { state: log, healed: false };
    const live = log.filter((stamp) => stamp > now - this.window);
    return { state: live.map((stamp) => min(stamp, now)), healed: newest > now };
  }

  whole(log: Log): boolean {
    return log.length === 0;
  }

  admits(log: Log, cost: bigint): boolean {
    return this.limit > 0n && BigInt(log.length) + cost <= this.limit;
  }

  charge(log: Log, cost: bigint, now: bigint): { readonly state: Log; readonly receipt: bigint } {
    const stamps = Array.from({ length: Number(cost) }, () => now);
    return { state: [...log, ...stamps], receipt: now };
  }

  refund(log: Log, units: bigint): Log {
    return log.slice(0, Number(less(BigInt(log.length), units)));
  }

  giveBack(log: Log, units: bigint, own: bigint): Log {
    let left = units;
    return log.filter((stamp) => stamp !== own || left-- <= 0n);
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

  giveBack(slots: readonly Slot[], _units: bigint, receipt: object): readonly Slot[] {
    return slots.filter(({ holder }) => holder !== receipt);
  }

  /** The slots with another timeout for this one's, or undefined when it is no longer held. */
  renew(slots: readonly Slot[], receipt: object, now: bigint): readonly Slot[] | undefined {
    return slots.some(({ holder }) => holder === receipt)
      ? [...this.giveBack(slots, 1n, receipt), { holder: receipt, expiry: now + this.timeout }]
      : undefined;
  }
}
