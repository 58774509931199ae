import type { Receipt, Rule, Twin } from '../algorithm.ts';
import type { LeakyBucketPolicy, TokenBucketPolicy } from '../policy.ts';
import { type DrainRate, drainRate, LARGEST } from '../tick.ts';

/**
 * What a bucket remembers.
 * - debt: what is owed, in 1/unit of a unit
 * - unit: the denominator that debt is counted in
 * - last: the instant the debt was brought to, in µs
 * - era: names the time since which all charges are known, by the charge that it began with; 0 for none
 * - charged: units charged since then
 */
export type BucketState = [debt: number, unit: number, last: number, era: number, charged: number];

/**
 * Token bucket, and GCRA in other words: the state is the debt, which drains at the exact rational rate
 * drain/unit per tick. A cost is admitted when debt + cost fits in the capacity.
 *
 * Debt saturates at the largest amount to which a quota can still be added exactly, at least the quota itself.
 */
export class TokenBucketRule<
  P extends TokenBucketPolicy | LeakyBucketPolicy = TokenBucketPolicy,
> implements Rule {
  readonly policy: P;
  readonly quota: number;
  readonly size = 5;
  readonly overdraws = true;
  readonly holdsSlots = false;
  readonly spreads = false;
  readonly queues: boolean = false;
  readonly refusal = 'limited';
  readonly numbers: readonly number[];
  protected readonly tick: number;
  protected readonly drain: number;
  protected readonly unit: number;
  private readonly capacity: number;
  private readonly mostDebt: number;

  constructor(policy: P) {
    // parsePolicy() has refused every policy for which this is undefined.
    const exact = drainRate(
      policy.capacity,
      policy.rate,
      Math.round(policy.per * 1_000),
    ) as DrainRate;
    this.policy = policy;
    this.quota = policy.capacity;
    this.tick = exact.tick;
    this.drain = exact.drain;
    this.unit = exact.unit;
    this.mostDebt = exact.mostDebt;
    this.capacity = policy.capacity * exact.unit;
    this.numbers = [this.quota, this.tick, this.drain, this.unit, this.capacity, this.mostDebt];
  }

  offset(_key: string): number {
    return 0;
  }

  roll(state: BucketState, now: number): boolean {
    const healed = state[2] > now;
    if (healed) state[2] = now;
    if (state[1] !== this.unit || state[0] > this.mostDebt) this.adopt(state);
    const from = Math.ceil(state[2] / this.tick);
    const to = Math.floor(now / this.tick);
    if (to > from) state[0] = Math.max(0, state[0] - (to - from) * this.drain);
    if (to > from || state[0] === 0) state[2] = to * this.tick;
    return healed;
  }

  wait(state: BucketState, cost: number, now: number): number {
    if (cost > this.quota || this.quota === 0) return Infinity;
    const over = state[0] + cost * this.unit - this.capacity;
    return over <= 0 ? 0 : this.untilDrained(state, over, now);
  }

  delay(_state: BucketState, _now: number): number {
    return 0;
  }

  remaining(state: BucketState, _now: number): number {
    return state[0] >= this.capacity ? 0 : Math.floor((this.capacity - state[0]) / this.unit);
  }

  resetAfter(state: BucketState, now: number): number {
    return state[0] === 0 ? 0 : this.untilDrained(state, state[0], now);
  }

  add(state: BucketState, cost: number, _now: number, slot: number): Receipt {
    if (state[0] === 0 || state[3] === 0 || state[4] > LARGEST - cost) {
      state[3] = slot;
      state[4] = 0;
    }
    state[4] += cost;
    const debt = state[0] + cost * this.unit;
    state[0] = Math.min(debt, this.mostDebt);
    const receipt = [state[0], state[1], state[2], state[3], state[4]];
    // What was not charged in full cannot be given back, nor told from what others were charged.
    if (debt > this.mostDebt) state[3] = 0;
    return receipt;
  }

  refund(state: BucketState, units: number, _now: number): void {
    this.take(state, units * this.unit);
  }

  /**
   * Takes back no more than the least debt since the charge: units that time had given back already must not be
   * given back twice. The debt was never less than it is now without what was charged since; nothing is known, and
   * nothing given back, once the key was whole in between.
   */
  giveBack(state: BucketState, units: number, _now: number, receipt: Receipt): boolean {
    if (!this.knows(state, receipt)) return false;
    const leastDebt = state[0] - (state[4] - (receipt[4] as number)) * this.unit;
    if (leastDebt <= 0) return false;
    this.take(state, Math.min(units * this.unit, leastDebt));
    return true;
  }

  /**
   * Keeps back of the capacity what drains in that time: units used in a span were charged in one that began so much
   * earlier.
   */
  ahead(time: number): Rule | undefined {
    if (this.quota === 0) return this;
    const kept = Math.ceil((Math.ceil(time / this.tick) * this.drain) / this.unit);
    if (kept >= this.quota) return undefined;
    const policy = this.policy as TokenBucketPolicy;
    return new TokenBucketRule({ ...policy, capacity: this.quota - kept });
  }

  usableFor(_state: BucketState, _now: number): number {
    return Infinity;
  }

  /** Whether all charges since one are known. */
  protected knows(state: BucketState, receipt: Receipt): boolean {
    return receipt[1] === state[1] && receipt[3] === state[3] && state[3] !== 0;
  }

  /** How long until `debt` has drained, in µs from `now`. */
  protected untilDrained(state: BucketState, debt: number, now: number): number {
    return (this.ticks(state[2]) + Math.ceil(debt / this.drain)) * this.tick - now;
  }

  private ticks(instant: number): number {
    return Math.ceil(instant / this.tick);
  }

  private take(state: BucketState, debt: number): void {
    state[0] -= Math.min(debt, state[0]);
  }

  /** Counts a debt that another rate charged: the units stay owed, a broken one as a whole. */
  private adopt(state: BucketState): void {
    const units = state[0] === 0 ? 0 : state[0] / state[1];
    if (state[1] !== this.unit) state[0] = Math.ceil(units) * this.unit;
    state[0] = Math.min(state[0], this.mostDebt);
    state[1] = this.unit;
    state[3] = 0;
  }
}

/** How long until a debt, in the units of the state, is drained. */
export function untilDrained(debt: string): string {
  return `(ceil(state[3] / tick) + ceil(${debt} / drain)) * tick - now`;
}

/** Whether a receipt is of the charges that the state tells apart. */
export const KNOWS: string = 'receipt[2] == state[2] and receipt[4] == state[4] and state[4] ~= 0';

export const tokenBucketTwin: Twin = {
  numbers: ['quota', 'tick', 'drain', 'unit', 'capacity', 'mostDebt'],
  layout: '<i7i7i7I4i7',
  roll: /* lua */ `
    healed = state[3] > now
    if healed then state[3] = now end
    if state[2] ~= unit or state[1] > mostDebt then
      local held = state[1] == 0 and 0 or state[1] / state[2]
      if state[2] ~= unit then state[1] = ceil(held) * unit end
      state[1] = min(state[1], mostDebt)
      state[2] = unit
      state[4] = 0
    end
    local from, to = ceil(state[3] / tick), floor(now / tick)
    if to > from then state[1] = max(0, state[1] - (to - from) * drain) end
    if to > from or state[1] == 0 then state[3] = to * tick end`,
  wait: /* lua */ `
    if cost > quota or quota == 0 then
      wait = INFINITY
    else
      local over = state[1] + cost * unit - capacity
      if over > 0 then wait = ${untilDrained('over')} end
    end`,
  remaining: 'remaining = state[1] >= capacity and 0 or floor((capacity - state[1]) / unit)',
  resetAfter: `resetAfter = state[1] == 0 and 0 or ${untilDrained('state[1]')}`,
  add: /* lua */ `
    if state[1] == 0 or state[4] == 0 or state[5] > LARGEST - cost then
      state[4] = slot
      state[5] = 0
    end
    state[5] = state[5] + cost
    local debt = state[1] + cost * unit
    state[1] = min(debt, mostDebt)
    if debt > mostDebt then state[4] = 0 end`,
  refund: 'state[1] = state[1] - min(units * unit, state[1])',
  giveBack: /* lua */ `
    if ${KNOWS} then
      local leastDebt = state[1] - (state[5] - receipt[5]) * unit
      given = leastDebt > 0
      if given then state[1] = state[1] - min(units * unit, leastDebt, state[1]) end
    end`,
};
