import type { Receipt, Rule, Twin } from '../algorithm.ts';
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
  readonly numbers: readonly number[];
  /** Slots reserved for higher priorities. */
  readonly kept: number;
  private readonly timeout: number;
  private readonly room: number;

  constructor(policy: ConcurrencyPolicy, kept = 0) {
    this.policy = policy;
    this.quota = policy.limit;
    this.kept = kept;
    this.refusal = policy.reserved === undefined ? 'limited' : 'overloaded';
    this.timeout = Math.round(policy.slotTimeout * 1_000);
    this.room = Math.max(0, policy.limit - kept);
    this.numbers = [this.room, this.timeout];
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
    void this.giveBack(slots, 1, now, [slot]);
    const expiry = now + this.timeout;
    let at = slots.length;
    while (at > 0 && number(slots, at - 2) > expiry) at -= 2;
    slots.splice(at, 0, expiry, slot);
    return [slot];
  }

  /** There is no refund without a slot to release. */
  refund(_slots: SlotsState, _units: number, _now: number): void {}

  giveBack(slots: SlotsState, _units: number, _now: number, receipt: Receipt): boolean {
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at + 1] === receipt[0]) {
        slots.splice(at, 2);
        return true;
      }
    }
    return false;
  }
}

/** The number at an index that the caller has checked. */
function number(slots: SlotsState, index: number): number {
  return slots[index] as number;
}

/** In Redis the slots are a sorted set, scored by expiry, that is read where it is needed and changed by `keep`. */
export const concurrencyTwin: Twin = {
  numbers: ['room', 'timeout'],
  functions: /* lua */ `
    function own.expiry(slots, index)
      local at = slots.expired + index
      local found = redis.call('ZRANGE', slots.key, at, at, 'WITHSCORES')
      return min(tonumber(found[2]), slots.latest)
    end

    function own.keep(slots)
      redis.call('ZREMRANGEBYSCORE', slots.key, '-inf', format('%d', slots.now))
      local latest = format('%d', slots.latest)
      for _, slot in ipairs(redis.call('ZRANGEBYSCORE', slots.key, '(' .. latest, '+inf')) do
        redis.call('ZADD', slots.key, latest, slot)
      end
      slots.expired = 0
    end

    function own.holds(slots, slot)
      local found = redis.call('ZSCORE', slots.key, slot)
      return found and tonumber(found) > slots.now
    end`,
  roll: /* lua */ `
    state.now = now
    state.latest = now + timeout
    state.expired = redis.call('ZCOUNT', state.key, '-inf', format('%d', now))
    local total = redis.call('ZCARD', state.key)
    state.known = total > 0
    state.count = total - state.expired
    healed = redis.call('ZCOUNT', state.key, '(' .. format('%d', state.latest), '+inf') > 0`,
  wait: /* lua */ `
    local tooMany = state.count + cost - room
    if cost > room or room == 0 then
      wait = INFINITY
    elseif tooMany > 0 then
      wait = own.expiry(state, tooMany - 1) - now
    end`,
  remaining: 'remaining = max(0, room - state.count)',
  resetAfter: 'resetAfter = state.count == 0 and 0 or own.expiry(state, state.count - 1) - now',
  add: /* lua */ `
    own.keep(state)
    state.count = state.count + redis.call('ZADD', state.key, format('%d', state.latest), slot)`,
  refund: '',
  giveBack: /* lua */ `
    if own.holds(state, slot) then
      own.keep(state)
      local taken = redis.call('ZREM', state.key, slot)
      state.count = state.count - taken
      given = taken > 0
    end`,
};
