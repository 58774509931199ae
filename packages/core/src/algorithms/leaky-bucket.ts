import type { Receipt } from '../algorithm.ts';
import type { LeakyBucketPolicy } from '../policy.ts';
import { type BucketState, TokenBucketRule } from './token-bucket.ts';

/**
 * Leaky bucket as a queue: the debt of a token bucket, read as the requests that wait in line. An admitted request
 * is held until what stood before it has drained.
 */
export class LeakyBucketRule extends TokenBucketRule<LeakyBucketPolicy> {
  override readonly queues = true;

  override delay(state: BucketState, now: number): number {
    return state[0] === 0 ? 0 : this.untilDrained(state, state[0], now);
  }

  /** A place is given back only from the end of the line: those behind it were told when to leave. */
  override giveBack(state: BucketState, units: number, _now: number, receipt: Receipt): void {
    const [debt, unit, last, since, refunded] = receipt as BucketState;
    if (unit !== state[1] || since !== state[3] || refunded !== state[4]) return;
    const nothingBehind = state[0] === this.drained(debt, last, state);
    // Not counted as refunded, so that the place before this one can be given back next.
    if (nothingBehind) state[0] = Math.max(0, state[0] - units * unit);
  }
}
