import fc from 'fast-check';

/**
 * Random histories are the same in every run, so that a run says something about the code and not about its luck.
 * `npm run test:soak` draws others, and ten times as many.
 */
const { TOLLGATE_SOAK } = process.env;

/** How many times more than usual a test tries. */
export const TIMES: number = TOLLGATE_SOAK === undefined ? 1 : 10;

const first = TOLLGATE_SOAK === undefined ? 1 : Number(TOLLGATE_SOAK) || Date.now() % 2 ** 31;

let round = 0;

/** The seed of the next of a file's rounds. */
export function nextSeed(): number {
  return first + round++;
}

fc.configureGlobal({ seed: first });
