import { strict as assert } from 'node:assert';
import { fixedWindow } from '../policy.ts';
import { COUNTING, EVERY, forEach } from './policies.ts';
import { asked, type Law, only } from './trial.ts';

const CROWD = 100;
const QUOTA = 37;

const everybody = <T>(ask: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: CROWD }, (_, index) => ask(index)));

const descending = (from: number): number[] => Array.from({ length: from }, (_, n) => from - 1 - n);

/** Calls that are made before others have been answered. */
export const CROWDS: readonly Law[] = [
  ...forEach(
    EVERY,
    'a hundred at once are admitted as far as the budget goes',
    async (trial, make) => {
      const limit = trial.one(make(QUOTA));
      const decisions = await everybody(() => limit.consume());
      const left = decisions.filter(({ allowed }) => allowed).map((each) => only(each).remaining);
      assert.equal(left.length, QUOTA, 'so many are admitted as the quota says');
      assert.deepEqual(
        left.sort((a, b) => b - a),
        descending(QUOTA),
        'each is told what it left, as if they had come one after the other',
      );
    },
  ),
  ...forEach(EVERY, 'a crowd before several limits takes from all or none', async (trial, make) => {
    const limiter = trial.limiter([
      { name: 'wide', policy: make(60) },
      { name: 'narrow', policy: make(QUOTA) },
      { name: 'own', policy: fixedWindow({ limit: 1, window: '1d' }) },
    ]);
    const decisions = await everybody(async (index) =>
      // Every other key is asked for twice, and may pass once.
      asked(await limiter.consume({ wide: 'k', narrow: 'k', own: `k${Math.floor(index / 2)}` })),
    );
    const admitted = decisions.filter(({ allowed }) => allowed).length;
    assert.equal(admitted, QUOTA);
    const { verdicts } = asked(await limiter.peek({ wide: 'k', narrow: 'k' }));
    assert.deepEqual(
      verdicts.map(({ remaining }) => remaining),
      [60 - QUOTA, 0],
    );
  }),
  ...forEach(COUNTING, 'what a crowd gives back can be taken again', async (trial, make) => {
    const limit = trial.one(make(CROWD));
    const decisions = await everybody(() => limit.consume());
    // From the end of the line on, which is the only place that a leaky bucket gives back.
    decisions.sort((a, b) => only(a).remaining - only(b).remaining);
    for (const decision of decisions.slice(0, QUOTA)) await decision.settle(0);
    const again = await everybody(() => limit.consume());
    assert.equal(again.filter(({ allowed }) => allowed).length, QUOTA);
  }),
];
