import { parsePolicy, type Policy, type PolicyInput } from '@tollgate/core';

/** The algorithms that are compared. */
export const COMPARED = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'] as const;

/** A policy of another algorithm with the same numbers, or why there is none. */
export interface Alternative {
  readonly algorithm: (typeof COMPARED)[number];
  readonly policy: Policy | undefined;
  readonly problem: string | undefined;
}

/** A quota, and in how many milliseconds it is whole again. */
interface Numbers {
  readonly quota: number;
  readonly window: number;
}

function numbersOf(policy: Policy): Numbers | undefined {
  switch (policy.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket': {
      const us = Math.ceil((policy.capacity * policy.per * 1_000) / policy.rate);
      return { quota: policy.capacity, window: Math.max(1, us) / 1_000 };
    }
    case 'concurrency':
      return undefined;
    default:
      return { quota: policy.limit, window: policy.window };
  }
}

/**
 * A limit's policy as each algorithm that counts requests over time: the same quota, in the same time. A bucket's time
 * is the one in which it is filled from empty to full. None for concurrency, which counts something else.
 */
export function alternativesOf(policy: Policy): Alternative[] {
  const numbers = numbersOf(policy);
  if (numbers === undefined) return [];
  return COMPARED.map((algorithm) => {
    const { quota, window } = numbers;
    const input =
      algorithm === 'token-bucket'
        ? { algorithm, capacity: quota, rate: quota, per: window }
        : { algorithm, limit: quota, window };
    try {
      const parsed = policy.algorithm === algorithm ? policy : parsePolicy(input as PolicyInput);
      return { algorithm, policy: parsed, problem: undefined };
    } catch (error) {
      return { algorithm, policy: undefined, problem: (error as Error).message };
    }
  });
}
