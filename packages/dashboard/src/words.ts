import type { Policy } from '@tollgate/core';

const UNITS = [
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
] as const;

const NAMES: Readonly<Record<Policy['algorithm'], string>> = {
  'token-bucket': 'Token bucket',
  'leaky-bucket': 'Leaky bucket',
  'fixed-window': 'Fixed window',
  'sliding-window': 'Sliding window',
  'sliding-log': 'Sliding log',
  concurrency: 'Concurrency',
};

const integer = new Intl.NumberFormat('en');

/** A policy for people: `{ algorithm: "Token bucket", numbers: "20 at once, then 5 per second" }`. */
export function describePolicy(policy: Policy): { algorithm: string; numbers: string } {
  return { algorithm: NAMES[policy.algorithm], numbers: numbersOf(policy) };
}

function numbersOf(policy: Policy): string {
  switch (policy.algorithm) {
    case 'token-bucket':
      return `${count(policy.capacity)} at once, then ${count(policy.rate)} per ${period(policy.per)}`;
    case 'leaky-bucket':
      return `${count(policy.capacity)} in the queue, ${count(policy.rate)} per ${period(policy.per)} leave it`;
    case 'concurrency': {
      const reserved = Object.entries(policy.reserved ?? {}).map(
        ([priority, share]) => `, ${Number((share * 100).toFixed(2))} % kept for ${priority}`,
      );
      return `${count(policy.limit)} in flight${reserved.join('')}`;
    }
    case 'fixed-window':
    case 'sliding-window':
    case 'sliding-log':
      return `${count(policy.limit)} per ${period(policy.window)}`;
  }
}

function count(value: number): string {
  return integer.format(value);
}

/** `second`, `15 minutes`, `250 ms`: the largest unit that it is a whole number of. */
export function period(ms: number): string {
  const [size, unit] = UNITS.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms'];
  const amount = Number((ms / size).toFixed(3));
  if (unit === 'ms') return `${count(amount)} ms`;
  return amount === 1 ? unit : `${count(amount)} ${unit}s`;
}

/** A length of time: `1 hour`, `15 minutes`. */
export function length(ms: number): string {
  const text = period(ms);
  return /^\d/.test(text) ? text : `1 ${text}`;
}
