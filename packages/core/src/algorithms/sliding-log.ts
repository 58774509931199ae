import type { Receipt, Rule, Twin } from '../algorithm.ts';
import type { SlidingLogPolicy } from '../policy.ts';

/** What a sliding log remembers: a window in µs, then one instant per unit, in µs, oldest first. */
type LogState = number[];

/**
 * Sliding log: exact, at the price of one timestamp per unit. A charge beyond the limit is refused. Units counted under
 * a longer window are judged by that until they are gone.
 */
export class SlidingLogRule implements Rule {
  readonly policy: SlidingLogPolicy;
  readonly quota: number;
  readonly size = undefined;
  readonly overdraws = false;
  readonly holdsSlots = false;
  readonly spreads = false;
  readonly queues = false;
  readonly refusal = 'limited';
  readonly numbers: readonly number[];
  private readonly window: number;

  constructor(policy: SlidingLogPolicy) {
    this.policy = policy;
    this.quota = policy.limit;
    this.window = Math.round(policy.window * 1_000);
    this.numbers = [this.quota, this.window];
  }

  offset(_key: string): number {
    return 0;
  }

  roll(log: LogState, now: number): boolean {
    const latest = now - this.windowOf(log);
    let expired = 0;
    while (expired < count(log) && instant(log, expired) <= latest) expired++;
    if (expired === count(log)) log.length = 0;
    else if (expired > 0) log.splice(1, expired);
    let future = count(log);
    while (future > 0 && instant(log, future - 1) > now) future--;
    const healed = future < count(log);
    if (healed) log.fill(now, future + 1);
    return healed;
  }

  wait(log: LogState, cost: number, now: number): number {
    if (cost > this.quota || this.quota === 0) return Infinity;
    const tooMany = count(log) + cost - this.quota;
    return tooMany <= 0 ? 0 : instant(log, tooMany - 1) + this.windowOf(log) - now;
  }

  delay(_log: LogState, _now: number): number {
    return 0;
  }

  remaining(log: LogState, _now: number): number {
    return Math.max(0, this.quota - count(log));
  }

  resetAfter(log: LogState, now: number): number {
    return count(log) === 0 ? 0 : instant(log, count(log) - 1) + this.windowOf(log) - now;
  }

  add(log: LogState, cost: number, now: number): Receipt {
    log[0] = this.windowOf(log);
    for (let unit = 0; unit < cost; unit++) log.push(now);
    return [now];
  }

  /** Newest first. */
  refund(log: LogState, units: number, _now: number): void {
    const left = count(log) - units;
    log.length = left > 0 ? left + 1 : 0;
  }

  /** The entries of the charge, as far as they are still in the log. */
  giveBack(log: LogState, units: number, _now: number, receipt: Receipt): boolean {
    const first = log.indexOf(receipt[0] as number, 1);
    if (first === -1) return false;
    let end = first;
    while (end < log.length && log[end] === receipt[0]) end++;
    log.splice(first, Math.min(units, end - first));
    if (count(log) === 0) log.length = 0;
    return true;
  }

  private windowOf(log: LogState): number {
    return Math.max(this.window, log[0] ?? 0);
  }
}

/** How many units are in the log. */
function count(log: LogState): number {
  return Math.max(0, log.length - 1);
}

/** The instant of a unit that the caller knows to be there. */
function instant(log: LogState, unit: number): number {
  return log[unit + 1] as number;
}

/**
 * In Redis the log is a list that is read where it is needed, of the window below zero, which is so no instant, and the
 * instants. What `roll` finds expired or in the future stays there until `keep`, which only a change calls.
 */
export const slidingLogTwin: Twin = {
  numbers: ['quota', 'window'],
  functions: /* lua */ `
    function own.instant(log, unit)
      if unit >= log.future then return log.now end
      return tonumber(redis.call('LINDEX', log.key, 1 + log.expired + unit))
    end

    -- How many of the first \`count\` entries are no later than an instant.
    function own.upTo(key, count, latest)
      local low, high = 0, count
      while low < high do
        local middle = floor((low + high) / 2)
        if tonumber(redis.call('LINDEX', key, 1 + middle)) <= latest then
          low = middle + 1
        else
          high = middle
        end
      end
      return low
    end

    function own.keep(log)
      local healed = log.count - log.future
      if log.count == 0 then
        redis.call('DEL', log.key)
        log.kept = 0
      elseif log.expired > 0 then
        redis.call('LTRIM', log.key, 1 + log.expired, -1)
        redis.call('LPUSH', log.key, format('%d', -log.kept))
      end
      if healed > 0 then redis.call('LTRIM', log.key, 0, -healed - 1) end
      log.expired = 0
      log.count = log.future
      own.push(log, healed)
    end

    function own.push(log, units)
      local stamp = format('%d', log.now)
      for _ = 1, units do redis.call('RPUSH', log.key, stamp) end
      log.count = log.count + units
      log.future = log.count
    end`,
  roll: /* lua */ `
    local count = max(0, redis.call('LLEN', state.key) - 1)
    state.now = now
    state.known = count > 0
    state.kept = state.known and -tonumber(redis.call('LINDEX', state.key, 0)) or 0
    state.window = max(window, state.kept)
    state.expired = own.upTo(state.key, count, now - state.window)
    state.count = count - state.expired
    state.future = state.count
    -- A log that is all expired starts anew.
    if state.count == 0 then state.window = window end
    if state.count > 0 and tonumber(redis.call('LINDEX', state.key, -1)) > now then
      state.future = own.upTo(state.key, count, now) - state.expired
    end
    healed = state.future < state.count`,
  wait: /* lua */ `
    local tooMany = state.count + cost - quota
    if cost > quota or quota == 0 then
      wait = INFINITY
    elseif tooMany > 0 then
      wait = own.instant(state, tooMany - 1) + state.window - now
    end`,
  remaining: 'remaining = max(0, quota - state.count)',
  resetAfter: /* lua */ `
    resetAfter = state.count == 0 and 0 or own.instant(state, state.count - 1) + state.window - now`,
  add: /* lua */ `
    own.keep(state)
    if state.kept ~= state.window then
      if state.kept > 0 then redis.call('LPOP', state.key) end
      redis.call('LPUSH', state.key, format('%d', -state.window))
      state.kept = state.window
    end
    own.push(state, cost)`,
  refund: /* lua */ `
    own.keep(state)
    local taken = min(units, state.count)
    if taken > 0 then redis.call('LTRIM', state.key, 0, -taken - 1) end
    state.count = state.count - taken
    state.future = state.count
    own.keep(state)`,
  giveBack: /* lua */ `
    local place = own.upTo(state.key, state.expired + state.count, receipt[1])
    local last = place > state.expired and tonumber(redis.call('LINDEX', state.key, place))
    if last == receipt[1] or state.future < state.count then
      own.keep(state)
      local taken = redis.call('LREM', state.key, format('%d', units), format('%d', receipt[1]))
      state.count = state.count - taken
      state.future = state.count
      own.keep(state)
      given = taken > 0
    end`,
};
