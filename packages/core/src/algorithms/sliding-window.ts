import { MOST_UNITS, type Receipt, type Rule, type Twin } from '../algorithm.ts';
import type { SlidingWindowPolicy } from '../policy.ts';
import { LARGEST, share, shareTwin, windowTick } from '../tick.ts';

/**
 * What a sliding window remembers.
 * - start: of the current window, in µs
 * - window: its length, in µs
 * - count: units charged in it
 * - previous: units charged in the window before it
 * - era and previousEra: name each of the two counts, by the charge that it began with
 */
type SlidingState = [
  start: number,
  window: number,
  count: number,
  previous: number,
  era: number,
  previousEra: number,
];

/**
 * Sliding window of two counters: a cost is admitted when
 * count + cost + previous · (what is left of the window) / window stays within the limit, compared without division.
 *
 * Units counted under another window length are judged by that length until they are gone or a charge moves them to
 * a longer one. Counts saturate at 2^53 - 1, the largest limit.
 */
export class SlidingWindowRule implements Rule {
  readonly policy: SlidingWindowPolicy;
  readonly quota: number;
  readonly size = 6;
  readonly overdraws = true;
  readonly holdsSlots = false;
  readonly spreads = false;
  readonly queues = false;
  readonly refusal = 'limited';
  readonly numbers: readonly number[];
  private readonly window: number;
  private readonly tick: number;

  constructor(policy: SlidingWindowPolicy) {
    this.policy = policy;
    this.quota = policy.limit;
    this.window = Math.round(policy.window * 1_000);
    // parsePolicy() has refused every policy for which this is undefined.
    this.tick = windowTick(policy.limit, this.window) as number;
    this.numbers = [this.quota, this.window, this.tick];
  }

  offset(_key: string): number {
    return 0;
  }

  roll(state: SlidingState, now: number): boolean {
    const healed = state[0] > now;
    if (state[1] !== 0) {
      const passed = healed ? 0 : Math.floor((now - state[0]) / state[1]);
      if (healed) state[0] = Math.floor(now / state[1]) * state[1];
      if (passed > 0) {
        state[0] += passed * state[1];
        state[3] = passed === 1 ? state[2] : 0;
        state[5] = state[4];
        state[2] = 0;
      }
    }
    if (state[2] === 0 && state[3] === 0) {
      state[0] = Math.floor(now / this.window) * this.window;
      state[1] = this.window;
    }
    return healed;
  }

  wait(state: SlidingState, cost: number, now: number): number {
    if (cost > this.quota || this.quota === 0) return Infinity;
    const tick = this.tickOf(state);
    const window = state[1] / tick;
    const quota = this.quotaOf(window);
    const room = quota - state[2] - cost;
    let ticks: number;
    if (room >= 0) {
      // previous · left <= room · window holds from the first `left` on that is at most this:
      const fits = state[3] === 0 ? window : Math.floor((room * window) / state[3]);
      if (window - Math.floor((now - state[0]) / tick) <= fits) return 0;
      ticks = window - fits;
    } else {
      // Not in this window: in the next one the count weighs as the previous.
      const fits =
        state[2] === 0 ? window : Math.floor((Math.max(0, quota - cost) * window) / state[2]);
      ticks = window + Math.max(0, window - fits);
    }
    return state[0] + ticks * tick - now;
  }

  delay(_state: SlidingState, _now: number): number {
    return 0;
  }

  remaining(state: SlidingState, now: number): number {
    const room = this.quotaOf(state[1] / this.tickOf(state)) - state[2];
    return room <= 0 ? 0 : Math.max(0, room - this.weighted(state, now));
  }

  resetAfter(state: SlidingState, now: number): number {
    if (state[2] > 0) return state[0] + 2 * state[1] - now;
    return state[3] > 0 ? state[0] + state[1] - now : 0;
  }

  add(state: SlidingState, cost: number, now: number, slot: number): Receipt {
    if (this.window > state[1]) {
      state[2] += this.weighted(state, now);
      state[3] = 0;
      state[0] = Math.floor(now / this.window) * this.window;
      state[1] = this.window;
      // Part of what is counted here was charged elsewhere.
      state[4] = slot;
    }
    if (state[2] === 0) state[4] = slot;
    state[2] = Math.min(state[2] + cost, MOST_UNITS);
    return [state[0], state[1], state[2], state[3], state[4], state[5]];
  }

  refund(state: SlidingState, units: number, _now: number): void {
    const taken = Math.min(units, state[2]);
    state[2] -= taken;
    state[3] = Math.max(0, state[3] - (units - taken));
  }

  /** Only from the count of the charge, as the current or as the previous one. */
  giveBack(state: SlidingState, units: number, _now: number, receipt: Receipt): boolean {
    const current = receipt[4] === state[4] && state[2] > 0;
    const previous = receipt[4] === state[5] && state[3] > 0;
    if (current) state[2] = Math.max(0, state[2] - units);
    if (previous) state[3] = Math.max(0, state[3] - units);
    return current || previous;
  }

  /** A unit counts in its window whenever in it it is used. */
  ahead(_time: number): Rule {
    return this;
  }

  usableFor(state: SlidingState, now: number): number {
    return state[0] + state[1] - now;
  }

  /** What the previous window still weighs, in units, rounded up. */
  private weighted(state: SlidingState, now: number): number {
    const tick = this.tickOf(state);
    const window = state[1] / tick;
    return share(state[3], window - Math.floor((now - state[0]) / tick), window);
  }

  /** The quota, or what of it can be counted exactly in a window that another policy left. */
  private quotaOf(window: number): number {
    return Math.min(this.quota, Math.floor(LARGEST / window));
  }

  private tickOf(state: SlidingState): number {
    return state[1] === this.window ? this.tick : (windowTick(this.quota, state[1]) ?? 1);
  }
}

/** Sets `fine` to the tick that the state's window is counted in, and `whole` to that window. */
const COUNTED = `
    local fine = tick
    if state[2] ~= window then
      fine = 1
      while fine <= 1000000 and (state[2] % fine ~= 0 or quota * (state[2] / fine) > LARGEST) do fine = fine * 1000 end
      if fine > 1000000 then fine = 1 end
    end
    local whole = state[2] / fine`;

/** Sets `weighted` to what still counts of the previous window. */
const WEIGHTED = `${COUNTED}
    local weighted
    local left = whole - floor((now - state[1]) / fine)
    ${shareTwin('weighted', 'state[4]', 'left', 'whole')}`;

const LAYOUT = '<i7i6i7i7I4I4';

export const slidingWindowTwin: Twin = {
  numbers: ['quota', 'window', 'tick'],
  layout: LAYOUT,
  roll: /* lua */ `
    healed = state[1] > now
    if state[2] ~= 0 then
      local passed = healed and 0 or floor((now - state[1]) / state[2])
      if healed then state[1] = floor(now / state[2]) * state[2] end
      if passed > 0 then
        state[1] = state[1] + passed * state[2]
        state[4] = passed == 1 and state[3] or 0
        state[6] = state[5]
        state[3] = 0
      end
    end
    if state[3] == 0 and state[4] == 0 then
      state[1] = floor(now / window) * window
      state[2] = window
    end`,
  wait: /* lua */ `
    if cost > quota or quota == 0 then
      wait = INFINITY
    else
      ${COUNTED}
      local most = min(quota, floor(LARGEST / whole))
      local room = most - state[3] - cost
      if room >= 0 then
        local fits = state[4] == 0 and whole or floor((room * whole) / state[4])
        if whole - floor((now - state[1]) / fine) > fits then
          wait = state[1] + (whole - fits) * fine - now
        end
      else
        local fits = state[3] == 0 and whole or floor((max(0, most - cost) * whole) / state[3])
        wait = state[1] + (whole + max(0, whole - fits)) * fine - now
      end
    end`,
  remaining: /* lua */ `
    ${WEIGHTED}
    local room = min(quota, floor(LARGEST / whole)) - state[3]
    remaining = room <= 0 and 0 or max(0, room - weighted)`,
  resetAfter: /* lua */ `
    if state[3] > 0 then
      resetAfter = state[1] + 2 * state[2] - now
    else
      resetAfter = state[4] > 0 and state[1] + state[2] - now or 0
    end`,
  ends: /* lua */ `
    local start, length, count, previous = unpacked('${LAYOUT}', text)
    if count > 0 then
      ends = start + 2 * length
    elseif previous > 0 then
      ends = start + length
    end`,
  add: /* lua */ `
    if window > state[2] then
      ${WEIGHTED}
      state[3] = state[3] + weighted
      state[4] = 0
      state[1] = floor(now / window) * window
      state[2] = window
      state[5] = slot
    end
    if state[3] == 0 then state[5] = slot end
    state[3] = min(state[3] + cost, MOST_UNITS)`,
  refund: /* lua */ `
    local taken = min(units, state[3])
    state[3] = state[3] - taken
    state[4] = max(0, state[4] - (units - taken))`,
  giveBack: /* lua */ `
    local current = receipt[5] == state[5] and state[3] > 0
    local previous = receipt[5] == state[6] and state[4] > 0
    if current then state[3] = max(0, state[3] - units) end
    if previous then state[4] = max(0, state[4] - units) end
    given = current or previous`,
};
