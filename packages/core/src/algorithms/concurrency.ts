import type { Receipt, Rule } from '../algorithm.ts';
import type { ConcurrencyPolicy } from '../policy.ts';

/** What a concurrency limit remembers: for each slot in use its expiry in µs and its name, soonest expiry first. */
type SlotsState = number[];

/**
 * Concurrency: requests in flight. Waits assume that nobody releases or renews a slot, so they are upper bounds.
 * With `kept` slots reserved for higher priorities, the rule of a lower one has that much less to give.
 */
export class ConcurrencyRule implements Rule {
  readonly policy: ConcurrencyPolicy;
  readonly quota: number;
  readonly size = undefined;
  readonly overdraws = false;
  readonly holdsSlots = true;
  readonly spreads = false;
  readonly queues = false;
  readonly refusal: 'limited' | 'overloaded';
  private readonly timeout: number;
  private readonly room: number;

  constructor(policy: ConcurrencyPolicy, kept = 0) {
    this.policy = policy;
    this.quota = policy.limit;
    this.refusal = policy.reserved === undefined ? 'limited' : 'overloaded';
    this.timeout = Math.round(policy.slotTimeout * 1_000);
    this.room = Math.max(0, policy.limit - kept);
  }

  offset(_key: string): number {
    return 0;
  }

  roll(slots: SlotsState, now: number): boolean {
    let expired = 0;
    while (expired < slots.length && number(slots, expired) <= now) expired += 2;
    if (expired > 0) slots.splice(0, expired);
    const latest = now + this.timeout;
    let healed = false;
    for (let at = slots.length - 2; at >= 0 && number(slots, at) > latest; at -= 2) {
      slots[at] = latest;
      healed = true;
    }
    return healed;
  }

  wait(slots: SlotsState, cost: number, now: number): number {
    if (cost > this.room || this.room === 0) return Infinity;
    const tooMany = slots.length / 2 + cost - this.room;
    return tooMany <= 0 ? 0 : number(slots, 2 * (tooMany - 1)) - now;
  }

  delay(_slots: SlotsState, _now: number): number {
    return 0;
  }

  remaining(slots: SlotsState, _now: number): number {
    return Math.max(0, this.room - slots.length / 2);
  }

  resetAfter(slots: SlotsState, now: number): number {
    return slots.length === 0 ? 0 : number(slots, slots.length - 2) - now;
  }

  /** Takes `slot`, or renews it where it is held already. */
  add(slots: SlotsState, _cost: number, now: number, slot: number): Receipt {
    this.giveBack(slots, 1, now, [slot]);
    const expiry = now + this.timeout;
    let at = slots.length;
    while (at > 0 && number(slots, at - 2) > expiry) at -= 2;
    slots.splice(at, 0, expiry, slot);
    return [slot];
  }

  /** There is no refund without a slot to release. */
  refund(_slots: SlotsState, _units: number, _now: number): void {}

  giveBack(slots: SlotsState, _units: number, _now: number, receipt: Receipt): void {
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at + 1] === receipt[0]) {
        slots.splice(at, 2);
        return;
      }
    }
  }
}

/** The number at an index that the caller has checked. */
function number(slots: SlotsState, index: number): number {
  return slots[index] as number;
}
