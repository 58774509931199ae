import fc from 'fast-check';
import { expect, test } from 'vitest';
import { History } from './exactness-histories.ts';
import {
  type Family,
  fixedWindows,
  leakyBuckets,
  slidingLogs,
  slidingWindows,
  slots,
  tokenBuckets,
} from './exactness-policies.ts';
import { pairOf, starts, steps } from './exactness-steps.ts';

const STEPS = 200_000;

/** Runs histories until there were enough steps; a history of fewer steps is what a failure shrinks to. */
function histories(families: fc.Arbitrary<Family>): number {
  let count = 0;
  let keepGoing = true;
  while (keepGoing) {
    fc.assert(
      fc.property(families, starts, steps, (family, start, history) => {
        const pairs = family.map((policy) => pairOf(policy));
        new History(pairs, start).run(history);
        count += history.length;
      }),
      { numRuns: 100 },
    );
    keepGoing = count < STEPS;
  }
  return count;
}

test.each([
  ['token-bucket', tokenBuckets],
  ['leaky-bucket', leakyBuckets],
  ['fixed-window', fixedWindows],
  ['sliding-window', slidingWindows],
  ['sliding-log', slidingLogs],
  ['concurrency', slots],
] as const)('%s answers as the oracle does', (_, families) => {
  expect(histories(families)).toBeGreaterThanOrEqual(STEPS);
});
