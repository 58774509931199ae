import type { Decision } from './decision.ts';
import type { Policy } from './policy.ts';

type Bucket = Extract<Policy, { algorithm: 'token-bucket' | 'leaky-bucket' }>;

function isBucket(policy: Policy): policy is Bucket {
  return policy.algorithm === 'token-bucket' || policy.algorithm === 'leaky-bucket';
}

/**
 * Whether who was refused may take the units before they are there, and so stand in line at the store: all limits are
 * buckets that have room for the cost, and say no more than that it is too soon.
 */
export function mayBookAhead({ reason, verdicts }: Decision): boolean {
  return (
    reason === 'limited' &&
    verdicts.every(
      ({ policy, shadow, source, cost, limit }) =>
        isBucket(policy) && !shadow && source === 'store' && cost <= limit,
    )
  );
}

/** How long until what was charged ahead is there: until no bucket owes more than it holds, and a queue has drained. */
export function dueAfterMs({ verdicts, delayMs }: Decision): number {
  let dueMs = delayMs;
  for (const { policy, resetAfterMs } of verdicts) {
    if (!isBucket(policy)) continue;
    const wholeUs = Math.floor((policy.capacity * Math.round(policy.per * 1_000)) / policy.rate);
    dueMs = Math.max(dueMs, resetAfterMs - wholeUs / 1_000);
  }
  return dueMs;
}
