import fc from 'fast-check';
import { expect, test } from 'vitest';
import { History } from './exactness-histories.ts';
import { ALGORITHMS, type Family } from './exactness-policies.ts';
import { nextSeed, TIMES } from '../../../test/seed.ts';
import { pairOf, starts, steps } from './exactness-steps.ts';

const STEPS = 200_000 * TIMES;

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
      { numRuns: 100, seed: nextSeed() },
    );
    keepGoing = count < STEPS;
  }
  return count;
}

test.each(ALGORITHMS)('%s answers as the oracle does', (_, families) => {
  expect(histories(families)).toBeGreaterThanOrEqual(STEPS);
});
