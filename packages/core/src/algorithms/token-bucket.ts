import type { Receipt, Rule } from '../algorithm.ts';
import type { LeakyBucketPolicy, TokenBucketPolicy } from '../policy.ts';
import { type DrainRate, drainRate } from '../tick.ts';

/**
 * What a bucket remembers.
 * - debt: what is owed, in 1/unit of a unit
 * - unit: the denominator that debt is counted in
 * - last: the instant the debt was brought to, in µs
 * - since: the instant from which something has been owed without a break, in µs
 * - refunded: units refunded since then, rounded up
 */
export type BucketState = [
  debt: number,
  unit: number,
  last: number,
  since: number,
  refunded: number,
];

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
  }

  offset(_key: string): number {
    return 0;
  }

  roll(state: BucketState, now: number): boolean {
    const healed = state[2] > now;
    if (healed) {
      state[2] = now;
      forgetReceipts(state, now);
    }
    if (state[1] !== this.unit) {
      // Another rate charged this debt: the units stay owed, a broken one as a whole.
      state[0] =
        state[0] === 0 ? 0 : Math.min(Math.ceil(state[0] / state[1]) * this.unit, this.mostDebt);
      state[1] = this.unit;
      forgetReceipts(state, now);
    }
    const from = Math.ceil(state[2] / this.tick);
    const to = Math.floor(now / this.tick);
    if (to > from) {
      state[0] = Math.max(0, state[0] - (to - from) * this.drain);
      state[2] = to * this.tick;
    }
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

  add(state: BucketState, cost: number, now: number): Receipt {
    if (state[0] === 0 && state[3] !== now) {
      state[3] = now;
      state[4] = 0;
    }
    state[0] = Math.min(state[0] + cost * this.unit, this.mostDebt);
    return [state[0], state[1], state[2], state[3], state[4]];
  }

  refund(state: BucketState, units: number, _now: number): void {
    this.take(state, units * this.unit);
  }

  /**
   * Takes back no more than the least debt since the charge: units that time had given back already must not be
   * given back twice. The debt then was at least what the charge left, less all that has come off since; nothing is
   * known, and nothing given back, once the key was whole in between.
   */
  giveBack(state: BucketState, units: number, _now: number, receipt: Receipt): void {
    const [debt, unit, last, since, refunded] = receipt as BucketState;
    if (unit !== state[1] || since !== state[3]) return;
    const drained = Math.max(0, this.ticks(state[2]) - this.ticks(last)) * this.drain;
    const leastDebt = debt - drained - (state[4] - refunded) * unit;
    if (leastDebt > 0) this.take(state, Math.min(units * unit, leastDebt));
  }

  /** What is left of the debt of a receipt if nothing but time has passed. */
  protected drained(debt: number, last: number, state: BucketState): number {
    return Math.max(0, debt - (this.ticks(state[2]) - this.ticks(last)) * this.drain);
  }

  /** How long until `debt` has drained, in µs from `now`. */
  protected untilDrained(state: BucketState, debt: number, now: number): number {
    return (this.ticks(state[2]) + Math.ceil(debt / this.drain)) * this.tick - now;
  }

  private ticks(instant: number): number {
    return Math.ceil(instant / this.tick);
  }

  private take(state: BucketState, debt: number): void {
    const taken = Math.min(debt, state[0]);
    state[0] -= taken;
    state[4] += Math.ceil(taken / this.unit);
  }
}

/** Makes receipts of earlier charges worth nothing, since what drained since then is no longer known. */
function forgetReceipts(state: BucketState, now: number): void {
  state[3] = now;
  state[4] = 0;
}
