import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../policy.ts';
import { memoryStore } from '../stores/memory.ts';
import { History, type Layer } from './history.ts';
import { Random } from './random.ts';
import type { Law, Trial } from './trial.ts';

/** Policies that take turns on one key, as in a rolling deploy. */
const FAMILIES: readonly (readonly [name: string, policies: readonly Policy[]])[] = [
  [
    'token-bucket',
    [
      tokenBucket({ capacity: 5, rate: 3, per: '1s' }),
      tokenBucket({ capacity: 9, rate: 7, per: '2s' }),
      tokenBucket({ capacity: 100, rate: 123_457, per: '30d' }),
    ],
  ],
  [
    'leaky-bucket',
    [
      leakyBucket({ capacity: 5, rate: 3, per: '1s' }),
      leakyBucket({ capacity: 4, rate: 7, per: '2s' }),
    ],
  ],
  [
    'fixed-window',
    [
      fixedWindow({ limit: 4, window: '1s' }),
      fixedWindow({ limit: 9, window: '3s', spread: true }),
      fixedWindow({ limit: 6, window: '3s' }),
    ],
  ],
  [
    'sliding-window',
    [
      slidingWindow({ limit: 4, window: '1s' }),
      slidingWindow({ limit: 9, window: '3s' }),
      slidingWindow({ limit: 1_000_000_000, window: '30d' }),
    ],
  ],
  ['sliding-log', [slidingLog({ limit: 4, window: '1s' }), slidingLog({ limit: 9, window: '3s' })]],
  [
    'concurrency',
    [concurrency({ limit: 3, slotTimeout: '1s' }), concurrency({ limit: 2, slotTimeout: '3s' })],
  ],
];

const HISTORIES = 8;
const KEYS = 8;
const STEPS = 40;

/** Histories of several keys side by side, each of them told to a memory store and to the store on trial. */
async function compare(
  trial: Trial,
  random: Random,
  layersOf: () => readonly Layer[],
): Promise<void> {
  const twin = memoryStore({ clock: trial.clock });
  for (let round = 0; round < HISTORIES; round++) {
    const history = new History(trial, twin, random, `round ${round}`);
    for (let key = 0; key < KEYS; key++) history.addKey(layersOf());
    for (let step = 0; step < STEPS; step++) await history.step();
  }
}

/** All policies of a family, or one of them. */
const some = (policies: readonly Policy[], random: Random): readonly Policy[] =>
  random.from([policies, [random.from(policies)]]);

/** Random histories, answered as the memory store answers them, field by field. */
export function histories(seed: number): Law[] {
  const single = FAMILIES.map(([name, policies]): Law => ({
    name: `a random history is answered as in memory: ${name}`,
    hold: (trial) => {
      const random = new Random(seed);
      return compare(trial, random, () => [
        { name: 'limit', policies: some(policies, random), shadow: false },
      ]);
    },
  }));
  const layered: Law = {
    name: 'a random history is answered as in memory: several limits',
    hold: (trial) => {
      const random = new Random(seed);
      return compare(trial, random, () =>
        Array.from({ length: 2 + random.upTo(2) }, (_, index) => ({
          name: `limit${index}`,
          policies: some(random.from(FAMILIES)[1], random),
          shadow: random.upTo(3) === 0,
        })),
      );
    },
  };
  return [...single, layered];
}
