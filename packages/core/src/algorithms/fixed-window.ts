import { MOST_UNITS, type Receipt, type Rule } from '../algorithm.ts';
import type { FixedWindowPolicy } from '../policy.ts';

/**
 * What a fixed window remembers.
 * - start and end: the window in which the units were counted, in µs
 * - count: units charged in it
 */
type WindowState = [start: number, end: number, count: number];

/** Offsets reach from 0 to 398 days in steps of this many µs, a prime so that they spread over any window. */
const SPREAD_US = 8_017;

/**
 * Fixed window: a count that is forgotten at the boundary, debt included. Units counted under another window length
 * stay until the window they were counted in ends. The count saturates at 2^52.
 */
export class FixedWindowRule implements Rule {
  readonly policy: FixedWindowPolicy;
  readonly quota: number;
  readonly size = 3;
  readonly overdraws = true;
  readonly holdsSlots = false;
  readonly spreads: boolean;
  readonly queues = false;
  readonly refusal = 'limited';
  private readonly window: number;

  constructor(policy: FixedWindowPolicy) {
    this.policy = policy;
    this.quota = policy.limit;
    this.spreads = policy.spread === true;
    this.window = Math.round(policy.window * 1_000);
  }

  offset(key: string): number {
    return this.spreads ? hash(key) * SPREAD_US : 0;
  }

  roll(state: WindowState, now: number): boolean {
    const healed = state[0] > now;
    if (healed || now >= state[1] || state[2] === 0) {
      state[0] = Math.floor(now / this.window) * this.window;
      state[1] = state[0] + this.window;
      if (!healed) state[2] = 0;
    }
    return healed;
  }

  wait(state: WindowState, cost: number, now: number): number {
    if (cost > this.quota || this.quota === 0) return Infinity;
    return state[2] + cost <= this.quota ? 0 : state[1] - now;
  }

  delay(_state: WindowState, _now: number): number {
    return 0;
  }

  remaining(state: WindowState, _now: number): number {
    return Math.max(0, this.quota - state[2]);
  }

  resetAfter(state: WindowState, now: number): number {
    return state[2] === 0 ? 0 : state[1] - now;
  }

  add(state: WindowState, cost: number, now: number): Receipt {
    if (state[1] - state[0] !== this.window) this.extend(state, now);
    state[2] = Math.min(state[2] + cost, MOST_UNITS);
    return [state[0], state[1], state[2]];
  }

  /** Moves units counted under another window length to the own window, if that ends later. */
  private extend(state: WindowState, now: number): void {
    const start = Math.floor(now / this.window) * this.window;
    if (start + this.window <= state[1]) return;
    state[0] = start;
    state[1] = start + this.window;
  }

  refund(state: WindowState, units: number, _now: number): void {
    state[2] = Math.max(0, state[2] - units);
  }

  /** Only while the window of the charge lasts. */
  giveBack(state: WindowState, units: number, now: number, receipt: Receipt): void {
    if (receipt[0] === state[0]) this.refund(state, units, now);
  }
}

/** FNV-1a, 32 bits, over UTF-16 code units. http://www.isthe.com/chongo/tech/comp/fnv/ */
function hash(key: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < key.length; at++) {
    value = Math.imul(value ^ key.charCodeAt(at), 0x01000193);
  }
  return value >>> 0;
}
