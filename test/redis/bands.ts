import fc from 'fast-check';
import type { Policy } from '../../packages/core/src/policy.ts';
import type { RedisStore } from '../../packages/core/src/redis/store.ts';
import { ALGORITHMS, type Family } from '../../packages/core/test/exactness-policies.ts';
import { pairOf, starts } from '../../packages/core/test/exactness-steps.ts';
import { Band, type Layer, trioSteps } from './trio.ts';
import { nextSeed } from '../seed.ts';

const BANDS = 4;
const KEYS = 16;
const STEPS = 50;

/** Steps of a round. */
export const STEPS_OF_A_ROUND: number = BANDS * KEYS * STEPS;

const kept = fc.constantFrom(0, 0, 0, 1, 2);

function layerOf(family: Family, name: string, shadow: boolean, kept: number): Layer {
  return { name, shadow, pairs: family.map((policy) => pairOf(policy, kept)) };
}

/** One limit of an algorithm for each key. */
export function single(algorithm: Policy['algorithm']): fc.Arbitrary<readonly Layer[]> {
  // The table has every algorithm.
  const [, families] = ALGORITHMS.find(([tag]) => tag === algorithm) as (typeof ALGORITHMS)[number];
  return fc.tuple(families, kept).map(([family, kept]) => [layerOf(family, 'limit', false, kept)]);
}

/** Two to four limits of any algorithms for each key. */
export const layered: fc.Arbitrary<readonly Layer[]> = fc
  .array(
    fc.tuple(
      fc.oneof(...ALGORITHMS.map(([, families]) => families)),
      fc.constantFrom(false, false, true),
      kept,
    ),
    { minLength: 2, maxLength: 4 },
  )
  .map((drawn) =>
    drawn.map(([family, shadow, kept], index) => layerOf(family, `limit${index}`, shadow, kept)),
  );

let rounds = 0;

/** Histories of some keys side by side, told to memory, oracle and Redis. Rejects where one of them differs. */
export async function round(
  layers: fc.Arbitrary<readonly Layer[]>,
  connect: (clock: () => number) => RedisStore,
): Promise<void> {
  const seed = nextSeed();
  const draw = <T>(arbitrary: fc.Arbitrary<T>, numRuns: number): T[] =>
    fc.sample(arbitrary, { numRuns, seed });
  const name = `round ${rounds++}`;
  const keys = draw(layers, BANDS * KEYS);
  const bands = draw(starts, BANDS).map(
    (start, index) =>
      new Band(
        `${name} band ${index}`,
        start,
        keys.slice(index * KEYS, (index + 1) * KEYS),
        connect,
      ),
  );
  const steps = draw(trioSteps, STEPS_OF_A_ROUND);
  try {
    for (let turn = 0; turn < STEPS; turn++) {
      await Promise.all(
        bands.map((band, index) => {
          const from = (turn * BANDS + index) * KEYS;
          return band.step(steps.slice(from, from + KEYS));
        }),
      );
    }
  } finally {
    await Promise.all(bands.map((band) => band.close()));
  }
}
