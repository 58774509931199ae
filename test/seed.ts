import fc from 'fast-check';
import { expect } from 'vitest';

/**
 * Random histories are the same in every run, so that a run says something about the code and not about its luck.
 * `npm run test:soak` draws others, and ten times as many.
 */
const { TOLLGATE_SOAK } = process.env;

/** How many times more than usual a test tries. */
export const TIMES: number = TOLLGATE_SOAK === undefined ? 1 : 10;

const first = TOLLGATE_SOAK === undefined ? 1 : Number(TOLLGATE_SOAK) || Date.now() % 2 ** 31;

/** By file, since files share this module, in whatever order they come. */
const rounds = new Map<string, number>();

/** The seed of the next of a file's rounds. */
export function nextSeed(): number {
  const { testPath = '' } = expect.getState();
  const round = rounds.get(testPath) ?? 0;
  rounds.set(testPath, round + 1);
  return first + round;
}

fc.configureGlobal({ seed: first });
