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
    const isLast = this.knows(state, receipt) && state[4] === receipt[4];
    if (!isLast || state[0] === 0) return false;
    state[0] = Math.max(0, state[0] - units * this.unit);
    // So that the place before this one is the last in line.
    state[4] -= units;
    return true;
  }
}

export const leakyBucketTwin: Twin = {
  numbers: tokenBucketTwin.numbers,
  layout: '<i7i7i7I4i7',
  extends: 'token-bucket',
  lua: /* lua */ `
    function rule.delay(self, state, now)
      return state[1] == 0 and 0 or self:untilDrained(state, state[1], now)
    end
  `,
  changes: /* lua */ `
    function rule.giveBack(self, state, units, now, receipt)
      local isLast = self:knows(state, receipt) and state[5] == receipt[5]
      if not isLast or state[1] == 0 then return false end
      state[1] = max(0, state[1] - units * self.unit)
      state[5] = state[5] - units
      return true
    end
  `,
};
