import type { Rule } from '../algorithm.ts';
import type { Policy } from '../policy.ts';
import { ConcurrencyRule } from './concurrency.ts';
import { FixedWindowRule } from './fixed-window.ts';
import { LeakyBucketRule } from './leaky-bucket.ts';
import { SlidingLogRule } from './sliding-log.ts';
import { SlidingWindowRule } from './sliding-window.ts';
import { TokenBucketRule } from './token-bucket.ts';

/** The table of algorithms: how each tag makes a rule. A new algorithm is one file and one line here. */
const ALGORITHMS: {
  readonly [Tag in Policy['algorithm']]: (policy: Extract<Policy, { algorithm: Tag }>) => Rule;
} = {
  'token-bucket': (policy) => new TokenBucketRule(policy),
  'leaky-bucket': (policy) => new LeakyBucketRule(policy),
  'fixed-window': (policy) => new FixedWindowRule(policy),
  'sliding-window': (policy) => new SlidingWindowRule(policy),
  'sliding-log': (policy) => new SlidingLogRule(policy),
  concurrency: (policy) => new ConcurrencyRule(policy),
};

/** Makes a policy ready to decide. */
export function ruleOf(policy: Policy): Rule {
  // The table's type ties each tag to its own policy, which an indexed access cannot express.
  return (ALGORITHMS[policy.algorithm] as (policy: Policy) => Rule)(policy);
}
