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
  lua: /* lua */ `
    local function expiry(slots, index)
      local at = slots.expired + index
      local found = redis.call('ZRANGE', slots.key, at, at, 'WITHSCORES')
      return min(tonumber(found[2]), slots.latest)
    end

    function rule.roll(self, slots, now)
      slots.now = now
      slots.latest = now + self.timeout
      slots.expired = redis.call('ZCOUNT', slots.key, '-inf', format('%d', now))
      local total = redis.call('ZCARD', slots.key)
      slots.known = total > 0
      slots.count = total - slots.expired
      return redis.call('ZCOUNT', slots.key, '(' .. format('%d', slots.latest), '+inf') > 0
    end

    function rule.keep(self, slots)
      redis.call('ZREMRANGEBYSCORE', slots.key, '-inf', format('%d', slots.now))
      local latest = format('%d', slots.latest)
      for _, slot in ipairs(redis.call('ZRANGEBYSCORE', slots.key, '(' .. latest, '+inf')) do
        redis.call('ZADD', slots.key, latest, slot)
      end
      slots.expired = 0
    end

    function rule.wait(self, slots, cost, now)
      if cost > self.room or self.room == 0 then return INFINITY end
      local tooMany = slots.count + cost - self.room
      return tooMany <= 0 and 0 or expiry(slots, tooMany - 1) - now
    end

    function rule.remaining(self, slots, now)
      return max(0, self.room - slots.count)
    end

    function rule.resetAfter(self, slots, now)
      return slots.count == 0 and 0 or expiry(slots, slots.count - 1) - now
    end

    function rule.add(self, slots, cost, now, slot)
      self:keep(slots)
      slots.count = slots.count + redis.call('ZADD', slots.key, format('%d', slots.latest), slot)
    end
  `,
  changes: /* lua */ `
    function rule.refund(self, slots, units, now)
    end

    function rule.giveBack(self, slots, units, now, receipt, slot)
      if not self:holds(slots, slot) then return false end
      self:keep(slots)
      local taken = redis.call('ZREM', slots.key, slot)
      slots.count = slots.count - taken
      return taken > 0
    end

    function rule.holds(self, slots, slot)
      local found = redis.call('ZSCORE', slots.key, slot)
      return found and tonumber(found) > slots.now
    end
  `,
};
