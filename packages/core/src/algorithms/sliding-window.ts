import { MOST_UNITS, type Receipt, type Rule } from '../algorithm.ts';
import type { SlidingWindowPolicy } from '../policy.ts';
import { LARGEST, windowTick } from '../tick.ts';

/**
 * What a sliding window remembers.
 * - start: of the current window, in µs
 * - window: its length, in µs
 * - count: units charged in it
 * - previous: units charged in the window before it
 */
type SlidingState = [start: number, window: number, count: number, previous: number];

/**
 * Sliding window of two counters: a cost is admitted when
 * count + cost + previous · (what is left of the window) / window stays within the limit, compared without division.
 *
 * Units counted under another window length are judged by that length until they are gone or a charge moves them to
 * a longer one. Counts saturate at 2^52.
 */
export class SlidingWindowRule implements Rule {
  readonly policy: SlidingWindowPolicy;
  readonly quota: number;
  readonly size = 4;
  readonly overdraws = true;
  readonly holdsSlots = false;
  readonly spreads = false;
  readonly queues = false;
  readonly refusal = 'limited';
  private readonly window: number;
  private readonly tick: number;

  constructor(policy: SlidingWindowPolicy) {
    this.policy = policy;
    this.quota = policy.limit;
    this.window = Math.round(policy.window * 1_000);
    // parsePolicy() has refused every policy for which this is undefined.
    this.tick = windowTick(policy.limit, this.window) as number;
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

  add(state: SlidingState, cost: number, now: number): Receipt {
    if (this.window > state[1]) {
      state[2] += this.weighted(state, now);
      state[3] = 0;
      state[0] = Math.floor(now / this.window) * this.window;
      state[1] = this.window;
    }
    state[2] = Math.min(state[2] + cost, MOST_UNITS);
    return [state[0], state[1], state[2], state[3]];
  }

  refund(state: SlidingState, units: number, _now: number): void {
    const taken = Math.min(units, state[2]);
    state[2] -= taken;
    state[3] = Math.max(0, state[3] - (units - taken));
  }

  /** Only from the window of the charge, as the current or as the previous one. */
  giveBack(state: SlidingState, units: number, _now: number, receipt: Receipt): void {
    const [start, window] = receipt as [number, number];
    if (window !== state[1]) return;
    if (start === state[0]) state[2] = Math.max(0, state[2] - units);
    if (start + window === state[0]) state[3] = Math.max(0, state[3] - units);
  }

  /** What the previous window still weighs, in units, rounded up. */
  private weighted(state: SlidingState, now: number): number {
    const tick = this.tickOf(state);
    const window = state[1] / tick;
    const product = state[3] * (window - Math.floor((now - state[0]) / tick));
    // A product this large outweighs every quota; unweighted it is exact.
    return product > LARGEST ? state[3] : Math.ceil(product / window);
  }

  /** The quota, or what of it can be counted exactly in a window that another policy left. */
  private quotaOf(window: number): number {
    return Math.min(this.quota, Math.floor(LARGEST / window));
  }

  private tickOf(state: SlidingState): number {
    return state[1] === this.window ? this.tick : (windowTick(this.quota, state[1]) ?? 1);
  }
}
