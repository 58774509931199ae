import { strict as assert } from 'node:assert';
import { fixedWindow, type Policy, slidingWindow, tokenBucket } from '../policy.ts';
import { COUNTING, EVERY, forEach } from './policies.ts';
import { asked, type Law, OneLimit, only } from './trial.ts';

/** What becomes of a key when its limit's policy is replaced. */
export const POLICY_CHANGES: readonly Law[] = [
  ...forEach(COUNTING, 'units owed stay owed under another quota', async (trial, make) => {
    const limit = trial.one(make(10));
    await limit.consume(6);
    for (const [quota, remaining] of [
      [8, 2],
      [4, 0],
      [20, 14],
      [10, 4],
    ] as const) {
      limit.limiter.update('limit', make(quota));
      await limit.expectRemaining(remaining, `under a quota of ${quota}`);
    }
  }),
  ...forEach(EVERY, 'old and new policy taking turns mint nothing', async (trial, make) => {
    const limit = trial.one(make(10));
    let admitted = 0;
    for (let times = 0; times < 40; times++) {
      limit.limiter.update('limit', make(times % 2 === 0 ? 10 : 7));
      if ((await limit.consume()).allowed) admitted++;
    }
    assert.equal(admitted, 10, 'no more than the greater quota');
  }),
  {
    name: 'units owed to a bucket stay owed at another rate',
    hold: async (trial) => {
      const bucket = (rate: number, per: string): Policy => tokenBucket({ capacity: 9, rate, per });
      const limit = trial.one(bucket(1, '1s'));
      await limit.consume(8);
      trial.clock.advance(2_500);
      await limit.consume(1);
      limit.limiter.update('limit', bucket(7, '31s'));
      await limit.expectRemaining(2, 'with 6.5 units owed, counted as 7');
      assert.equal((await limit.peek()).resetAfterMs, 31_000, 'seven units at the new rate');
    },
  },
  {
    name: 'a policy that a call brings is the one it is judged by',
    hold: async (trial) => {
      const limiter = trial.limiter([{ name: 'limit' }]);
      const plan = async (limit: number): Promise<number> => {
        const policies = { limit: fixedWindow({ limit, window: '1d' }) };
        return only(asked(await limiter.consume({ limit: 'key' }, { policies }))).remaining;
      };
      assert.deepEqual([await plan(10), await plan(100), await plan(10)], [9, 98, 7]);
    },
  },
  {
    name: 'under another algorithm a key starts fresh',
    hold: async (trial) => {
      const limiter = trial.limiter([{ name: 'limit' }]);
      for (const [, first] of EVERY) {
        for (const [, second] of EVERY) {
          const [from, to] = [first(2), second(2)];
          if (from.algorithm === to.algorithm) continue;
          const key = `${from.algorithm}, then ${to.algorithm}`;
          limiter.update('limit', from);
          const limit = new OneLimit(limiter, key);
          await limit.exhaust();
          limiter.update('limit', to);
          await limit.expectWhole(`under another algorithm: ${key}`);
        }
      }
    },
  },
  {
    name: 'a longer window takes over what a shorter one counted',
    hold: async (trial) => {
      const limit = trial.one(slidingWindow({ limit: 10, window: '1s' }));
      await limit.consume(6);
      limit.limiter.update('limit', slidingWindow({ limit: 10, window: '1h' }));
      await limit.consume(1);
      trial.clock.advance(2_000);
      await limit.expectRemaining(3, 'two seconds into the hour');
    },
  },
];
