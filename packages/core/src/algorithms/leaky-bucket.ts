import type { Receipt, Twin } from '../algorithm.ts';
import type { LeakyBucketPolicy } from '../policy.ts';
import {
  type BucketState,
  KNOWS,
  TokenBucketRule,
  tokenBucketTwin,
  untilDrained,
} from './token-bucket.ts';

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
  override giveBack(state: BucketState, units: number, _now: number, receipt: Receipt): boolean {
    const isLast = this.knows(state, receipt) && state[4] === receipt[4];
    if (!isLast || state[0] === 0) return false;
    state[0] = Math.max(0, state[0] - units * this.unit);
    // So that the place before this one is the last in line.
    state[4] -= units;
    return true;
  }
}

export const leakyBucketTwin: Twin = {
  ...tokenBucketTwin,
  delay: `delay = state[1] == 0 and 0 or ${untilDrained('state[1]')}`,
  giveBack: /* lua */ `
    given = ${KNOWS} and state[5] == receipt[5] and state[1] > 0
    if given then
      state[1] = max(0, state[1] - units * unit)
      state[5] = state[5] - units
    end`,
};
