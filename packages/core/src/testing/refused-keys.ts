import { strict as assert } from 'node:assert';
import { fixedWindow } from '../policy.ts';
import type { RefusedKey } from '../refusals/refused-key.ts';
import type { Law, Trial } from './trial.ts';

const HOUR_MS = 3_600_000;
const NOTHING = fixedWindow({ limit: 0, window: '1h' });
const LIMITS = [
  { name: 'one', policy: NOTHING },
  { name: 'other', policy: NOTHING },
];

/** A law of stores that add up what processes refuse. Those that have neither `tally` nor `mostRefused` need not keep it. */
function list(name: string, hold: (trial: Trial) => Promise<void>): Law {
  return {
    name,
    hold: async (trial) => {
      const [adds, lists] = [typeof trial.store.tally, typeof trial.store.mostRefused];
      assert.equal(adds, lists, 'a store has both tally() and mostRefused(), or neither');
      if (adds === 'function') await hold(trial);
    },
  };
}

const countsOf = (keys: readonly RefusedKey[] | undefined): unknown =>
  keys?.map(({ limit, key, count }) => [limit, key, count]);

/** The laws of the list of the most refused keys. */
export const REFUSED_KEYS: readonly Law[] = [
  list('what several limiters refuse is added up, by limit', async (trial) => {
    const [first, second] = [trial.limiter(LIMITS), trial.limiter(LIMITS)];
    for (let i = 0; i < 2; i++) await first.consume({ one: 'ada' });
    for (let i = 0; i < 3; i++) await second.consume({ one: 'ada', other: 'bob' });
    await second.consume({ one: 'eve' });
    await second.mostRefused('one', { fleet: true });
    const all = await first.mostRefused(undefined, { fleet: true });
    assert.deepEqual(countsOf(all), [
      ['one', 'ada', 5],
      ['other', 'bob', 3],
      ['one', 'eve', 1],
    ]);
    const most = await trial.store.mostRefused?.(undefined, 1, 24);
    assert.deepEqual(countsOf(most), [
      ['one', 'ada', 5],
      ['other', 'bob', 3],
    ]);
    assert.deepEqual(countsOf(await trial.store.mostRefused?.(['other'], 20, 24)), [
      ['other', 'bob', 3],
    ]);
    assert.deepEqual(await trial.store.mostRefused?.(['unheard-of'], 20, 24), []);
  }),
  list(
    'what was refused is listed for as many hours as are asked for, and no longer',
    async (trial) => {
      const limiter = trial.limiter(LIMITS);
      await limiter.consume({ one: 'early' });
      await limiter.mostRefused('one', { fleet: true });
      trial.clock.advance(3 * HOUR_MS);
      await limiter.consume({ one: 'late' });
      const keys = async (hours: number): Promise<unknown> => {
        const listed = await limiter.mostRefused('one', { fleet: true, hours });
        return listed.map(({ key }) => key).toSorted();
      };
      assert.deepEqual(await keys(1), ['late']);
      assert.deepEqual(await keys(4), ['early', 'late']);
      trial.clock.advance(23 * HOUR_MS);
      assert.deepEqual(await keys(24), ['late']);
    },
  ),
];
