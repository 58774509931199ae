import type { Rule, Twin } from '../algorithm.ts';
import type { Policy } from '../policy.ts';
import { ConcurrencyRule, concurrencyTwin } from './concurrency.ts';
import { FixedWindowRule, fixedWindowTwin } from './fixed-window.ts';
import { LeakyBucketRule, leakyBucketTwin } from './leaky-bucket.ts';
import { SlidingLogRule, slidingLogTwin } from './sliding-log.ts';
import { SlidingWindowRule, slidingWindowTwin } from './sliding-window.ts';
import { TokenBucketRule, tokenBucketTwin } from './token-bucket.ts';

interface Algorithm<P> {
  readonly rule: (policy: P) => Rule;
  readonly twin: Twin;
}

/** The table of algorithms: each one's rule and its Lua twin. A new algorithm is one file and one line here. */
const ALGORITHMS: {
  readonly [Tag in Policy['algorithm']]: Algorithm<Extract<Policy, { algorithm: Tag }>>;
} = {
  'token-bucket': { rule: (policy) => new TokenBucketRule(policy), twin: tokenBucketTwin },
  'leaky-bucket': { rule: (policy) => new LeakyBucketRule(policy), twin: leakyBucketTwin },
  'fixed-window': { rule: (policy) => new FixedWindowRule(policy), twin: fixedWindowTwin },
  'sliding-window': { rule: (policy) => new SlidingWindowRule(policy), twin: slidingWindowTwin },
  'sliding-log': { rule: (policy) => new SlidingLogRule(policy), twin: slidingLogTwin },
  concurrency: { rule: (policy) => new ConcurrencyRule(policy), twin: concurrencyTwin },
};

/** The Lua twins by tag, in an order that does not change: a script names an algorithm by its place. */
export const TWINS: readonly (readonly [tag: Policy['algorithm'], twin: Twin])[] = (
  Object.keys(ALGORITHMS) as Policy['algorithm'][]
).map((tag) => [tag, ALGORITHMS[tag].twin]);

/** Makes a policy ready to decide. */
export function ruleOf(policy: Policy): Rule {
  // The table's type ties each tag to its own policy, which an indexed access cannot express.
  return (ALGORITHMS[policy.algorithm] as Algorithm<Policy>).rule(policy);
}
