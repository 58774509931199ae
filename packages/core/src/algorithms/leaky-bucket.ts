import type { Receipt, Twin } from '../algorithm.ts';
import type { LeakyBucketPolicy } from '../policy.ts';
import { type BucketState, TokenBucketRule, tokenBucketTwin } from './token-bucket.ts';

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
    const left = this.left(state, receipt);
    const nothingBehind = left > 0 && state[0] === left;
    // Not counted as gone, so that the place before this one can be given back next.
    if (nothingBehind) state[0] = Math.max(0, state[0] - units * this.unit);
    return nothingBehind;
  }
}

export const leakyBucketTwin: Twin = {
  numbers: tokenBucketTwin.numbers,
  keeps: 'string',
  extends: 'token-bucket',
  lua: /* lua */ `
    function rule.delay(self, state, now)
      return state[1] == 0 and 0 or self:untilDrained(state, state[1], now)
    end

    function rule.giveBack(self, state, units, now, receipt)
      local left = self:left(state, receipt)
      local nothingBehind = left > 0 and state[1] == left
      if nothingBehind then state[1] = max(0, state[1] - units * self.unit) end
      return nothingBehind
    end
  `,
};
