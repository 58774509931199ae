import { MOST_UNITS, type Receipt, type Rule, type Twin } from '../algorithm.ts';
import { fnv1a } from '../hash.ts';
import type { FixedWindowPolicy } from '../policy.ts';

/**
 * What a fixed window remembers.
 * - start and length: the window in which the units were counted, in µs
 * - count: units charged in it
 * - era: names the time since which there are any, by the charge that it began with
 */
type WindowState = [start: number, length: number, count: number, era: number];

/** Offsets reach from 0 to 398 days in steps of this many µs, a prime so that they spread over any window. */
const SPREAD_US = 8_017;

/**
 * Fixed window: a count that is forgotten at the boundary, debt included. Units counted in another policy's window
 * stay until that one ends. The count saturates at 2^53 - 1, the largest limit.
 */
export class FixedWindowRule implements Rule {
  readonly policy: FixedWindowPolicy;
  readonly quota: number;
  readonly size = 4;
  readonly overdraws = true;
  readonly holdsSlots = false;
  readonly spreads: boolean;
  readonly queues = false;
  readonly refusal = 'limited';
  readonly numbers: readonly number[];
  private readonly window: number;

  constructor(policy: FixedWindowPolicy) {
    this.policy = policy;
    this.quota = policy.limit;
    this.spreads = policy.spread === true;
    this.window = Math.round(policy.window * 1_000);
    this.numbers = [this.quota, this.window];
  }

  offset(key: string): number {
    return this.spreads ? fnv1a(key) * SPREAD_US : 0;
  }

  roll(state: WindowState, now: number, offset: number): boolean {
    const healed = state[0] > now;
    if (healed || now >= state[0] + state[1] || state[2] === 0) {
      state[0] = this.start(now, offset);
      state[1] = this.window;
      if (!healed) state[2] = 0;
    }
    return healed;
  }

  wait(state: WindowState, cost: number, now: number): number {
    if (cost > this.quota || this.quota === 0) return Infinity;
    return state[2] + cost <= this.quota ? 0 : state[0] + state[1] - now;
  }

  delay(_state: WindowState, _now: number): number {
    return 0;
  }

  remaining(state: WindowState, _now: number): number {
    return Math.max(0, this.quota - state[2]);
  }

  resetAfter(state: WindowState, now: number): number {
    return state[2] === 0 ? 0 : state[0] + state[1] - now;
  }

  add(state: WindowState, cost: number, now: number, slot: number, offset: number): Receipt {
    const start = this.start(now, offset);
    if (start + this.window > state[0] + state[1]) {
      state[0] = start;
      state[1] = this.window;
    }
    if (state[2] === 0) state[3] = slot;
    state[2] = Math.min(state[2] + cost, MOST_UNITS);
    return [state[0], state[1], state[2], state[3]];
  }

  refund(state: WindowState, units: number, _now: number): void {
    state[2] = Math.max(0, state[2] - units);
  }

  /** Only while the units that were counted with those of the charge are. */
  giveBack(state: WindowState, units: number, now: number, receipt: Receipt): boolean {
    if (receipt[3] !== state[3] || state[2] === 0) return false;
    this.refund(state, units, now);
    return true;
  }

  /** A unit counts in its window whenever in it it is used. */
  ahead(_time: number): Rule {
    return this;
  }

  usableFor(state: WindowState, now: number): number {
    return state[0] + state[1] - now;
  }

  /** Where the window that holds `now` starts. */
  private start(now: number, offset: number): number {
    return Math.floor((now + offset) / this.window) * this.window - offset;
  }
}

const LAYOUT = '<i7i6i7I4';
const START = 'floor((now + offset) / window) * window - offset';

export const fixedWindowTwin: Twin = {
  numbers: ['quota', 'window'],
  layout: LAYOUT,
  roll: /* lua */ `
    healed = state[1] > now
    if healed or now >= state[1] + state[2] or state[3] == 0 then
      state[1] = ${START}
      state[2] = window
      if not healed then state[3] = 0 end
    end`,
  wait: /* lua */ `
    if cost > quota or quota == 0 then
      wait = INFINITY
    elseif state[3] + cost > quota then
      wait = state[1] + state[2] - now
    end`,
  remaining: 'remaining = max(0, quota - state[3])',
  resetAfter: 'resetAfter = state[3] == 0 and 0 or state[1] + state[2] - now',
  ends: /* lua */ `
    local start, length, count = unpacked('${LAYOUT}', text)
    if count > 0 then ends = start + length end`,
  add: /* lua */ `
    local start = ${START}
    if start + window > state[1] + state[2] then
      state[1] = start
      state[2] = window
    end
    if state[3] == 0 then state[4] = slot end
    state[3] = min(state[3] + cost, MOST_UNITS)`,
  refund: 'state[3] = max(0, state[3] - units)',
  giveBack: /* lua */ `
    given = receipt[4] == state[4] and state[3] > 0
    if given then state[3] = max(0, state[3] - units) end`,
};
