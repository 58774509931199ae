import { strict as assert } from 'node:assert';
import { fixedWindow, type Policy } from '../policy.ts';
import { COUNTING, forEach } from './policies.ts';
import { asked, type Law, only } from './trial.ts';

const day = (limit: number): Policy => fixedWindow({ limit, window: '1d' });

/** Keys of which no two are one, however they are written down. */
const STRANGE: readonly string[] = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  ' ',
  '  ',
  'a',
  'A',
  'a ',
  ' a',
  'a\n',
  'a\r\nb',
  'a\nb',
  'a\0',
  'a\0b',
  'a:b',
  'a::b',
  'a/b',
  'a%3Ab',
  '{a}',
  '{a}b',
  '{}a',
  '}a{',
  '*',
  '?',
  '\\',
  '"',
  "'",
  'é',
  'e\u0301',
  'ﬁ',
  'fi',
  '🦊',
  '\uD83E',
  '\uDD8A',
  '\uD83E\uD83E',
  '\uFFFD',
  '\u200B',
  '0',
  '00',
  '-0',
  'null',
  'undefined',
  'x'.repeat(255),
  'x'.repeat(256),
  'x'.repeat(257),
  'x'.repeat(10_000),
  `${'x'.repeat(9_999)}y`,
  'é'.repeat(128),
  'é'.repeat(129),
];

/** Whose budget a charge is. */
export const KEYS: readonly Law[] = [
  ...forEach(
    COUNTING,
    'every key has a budget of its own, however strange',
    async (trial, make) => {
      const limiter = trial.limiter([{ name: 'limit', policy: make(STRANGE.length) }]);
      // Each key is charged another cost, which is found again only if no two keys are mixed up.
      for (const [index, key] of STRANGE.entries()) {
        asked(await limiter.consume({ limit: key }, { cost: index + 1 }));
      }
      for (const [index, key] of STRANGE.entries()) {
        const { remaining } = only(asked(await limiter.peek({ limit: key })));
        const shown = JSON.stringify(key.slice(0, 20));
        assert.equal(
          remaining,
          STRANGE.length - index - 1,
          `remaining of ${shown} (${key.length})`,
        );
      }
    },
  ),
  {
    name: 'a strange key is reset and refunded like any other',
    hold: async (trial) => {
      const limiter = trial.limiter([{ name: 'limit', policy: day(5) }]);
      for (const key of STRANGE) {
        asked(await limiter.consume({ limit: key }, { cost: 5 }));
        await limiter.refund({ limit: key }, 2);
        const { remaining } = only(asked(await limiter.peek({ limit: key })));
        assert.equal(remaining, 2, `after a refund of ${JSON.stringify(key.slice(0, 20))}`);
        await limiter.reset({ limit: key });
        assert.equal(only(asked(await limiter.peek({ limit: key }))).remaining, 5, 'after a reset');
      }
    },
  },
  {
    name: 'limits of other names have budgets of their own',
    hold: async (trial) => {
      const names = ['a', 'ab', 'abc', 'a-b', 'a_b'];
      const limiter = trial.limiter(names.map((name) => ({ name, policy: day(9) })));
      const keys = { a: 'bcd', ab: 'cd', abc: 'd', 'a-b': 'cd', a_b: 'cd' };
      asked(await limiter.consume(keys, { cost: { a: 1, ab: 2, abc: 3, 'a-b': 4, a_b: 5 } }));
      assert.deepEqual(
        asked(await limiter.peek(keys)).verdicts.map(({ remaining }) => remaining),
        [8, 7, 6, 5, 4],
      );
    },
  },
  {
    name: 'limiters on one store share the budget of a name',
    hold: async (trial) => {
      const [one, other] = [trial.one(day(3)), trial.one(day(3))];
      const said: boolean[] = [];
      for (const limit of [one, other, one, other, one]) {
        said.push((await limit.consume()).allowed);
      }
      assert.deepEqual(said, [true, true, true, false, false]);
    },
  },
];
