import { strict as assert } from 'node:assert';
import type { Keys, LimitOptions } from '../limits.ts';
import { fixedWindow, leakyBucket, type Policy } from '../policy.ts';
import { COUNTING, EVERY, forEach } from './policies.ts';
import { asked, type Law, only, standing, type Trial } from './trial.ts';

const QUOTA = 5;
const KEY = 'key';

/** Limits named `limit0` and so on, of each algorithm in turn. */
function limitsOf(count: number): LimitOptions[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `limit${index}`,
    // The index is within the table.
    policy: (EVERY[index % EVERY.length] as (typeof EVERY)[number])[1](QUOTA),
  }));
}

const keysOf = (limits: readonly LimitOptions[], key: (name: string) => string): Keys =>
  Object.fromEntries(limits.map(({ name }) => [name, key(name)]));

/** Puts a limit of one unit among others at a place, and has it refuse. */
async function refusesAt(trial: Trial, place: number, count: number, tight: Policy): Promise<void> {
  const others = limitsOf(count - 1);
  const limits = others.toSpliced(place, 0, { name: `tight${place}`, policy: tight });
  const limiter = trial.limiter(limits);
  const keys = keysOf(limits, () => `at ${place}`);
  assert.equal(asked(await limiter.consume(keys)).allowed, true, 'the first request is admitted');
  const before = standing(await limiter.peek(keys));
  const refused = asked(await limiter.consume(keys));
  assert.deepEqual(
    refused.verdicts.map(({ allowed }) => allowed),
    limits.map((_, index) => index !== place),
    'only the limit that is exhausted refuses',
  );
  assert.equal(refused.allowed, false, 'one refusal refuses the request');
  assert.deepEqual(standing(await limiter.peek(keys)), before, 'a refusal takes nothing');
  const rest = { ...keys, [`tight${place}`]: undefined };
  assert.equal(asked(await limiter.consume(rest)).allowed, true, 'the others admit on their own');
}

const layers: readonly Law[] = [
  ...forEach(EVERY, 'where one limit refuses, nothing is taken from any', async (trial, make) => {
    for (const place of [0, 3, EVERY.length]) {
      await refusesAt(trial, place, EVERY.length + 1, make(1));
    }
  }),
  {
    name: 'sixteen limits are decided as one',
    hold: async (trial) => {
      await refusesAt(trial, 15, 16, fixedWindow({ limit: 1, window: '1d' }));
    },
  },
  {
    name: 'a verdict per charge, in their order, with the time of the decision',
    hold: async (trial) => {
      const limits = limitsOf(EVERY.length);
      const limiter = trial.limiter(limits);
      const keys = keysOf(limits, (name) => `key of ${name}`);
      const decision = asked(await limiter.consume(keys, { cost: 2 }));
      assert.equal(decision.atMs, trial.clock() / 1_000, 'the store goes by its clock');
      assert.deepEqual(
        decision.verdicts.map((verdict) => ({ ...verdict, nextAfterMs: 0, resetAfterMs: 0 })),
        limits.map(({ name, policy }) => {
          const cost = policy?.algorithm === 'concurrency' ? 1 : 2;
          return {
            name,
            key: `key of ${name}`,
            policy,
            allowed: true,
            shadow: false,
            reason: 'ok',
            source: 'store',
            cost,
            limit: QUOTA,
            remaining: QUOTA - cost,
            nextAfterMs: 0,
            resetAfterMs: 0,
            retryAfterMs: 0,
          };
        }),
      );
    },
  },
  {
    name: 'a request to which no limit applies is admitted',
    hold: async (trial) => {
      const decision = await trial.limiter(limitsOf(2)).consume({});
      assert.deepEqual([decision.allowed, decision.verdicts], [true, []]);
    },
  },
];

const untouched: readonly Law[] = [
  ...forEach(EVERY, 'a refusal changes nothing', async (trial, make) => {
    const limit = trial.one(make(2));
    await limit.exhaust();
    const before = await limit.peek();
    for (let times = 0; times < 5; times++) {
      assert.deepEqual(only(await limit.consume()), before, 'it is refused alike each time');
    }
    assert.deepEqual(await limit.peek(), before);
  }),
  ...forEach(EVERY, 'a cost of 0 is admitted and changes nothing', async (trial, make) => {
    const limit = trial.one(make(2));
    assert.equal((await limit.consume(0)).allowed, true, 'of a key never seen');
    await limit.expectWhole('after a cost of 0');
    await limit.exhaust();
    const before = await limit.peek();
    assert.equal((await limit.consume(0)).allowed, true, 'of a key that is exhausted');
    assert.deepEqual(await limit.peek(), before, 'a cost of 0 takes nothing');
  }),
  ...forEach(EVERY, 'a peek says what would be, and changes nothing', async (trial, make) => {
    const limit = trial.one(make(2));
    for (let times = 0; times < 3; times++) await limit.peek();
    await limit.expectWhole('after peeks');
    await limit.consume();
    const { allowed, remaining } = await limit.peek();
    assert.deepEqual({ allowed, remaining }, { allowed: true, remaining: 1 });
    const refused = await limit.exhaust();
    assert.deepEqual(await limit.peek(), refused, 'what a refusal says');
  }),
  ...forEach(EVERY, 'a quota of 0 refuses every cost for ever', async (trial, make) => {
    const limit = trial.one(make(0));
    for (const cost of [0, 1]) {
      const { allowed, retryAfterMs, remaining } = only(await limit.consume(cost));
      assert.deepEqual(
        { allowed, retryAfterMs, remaining },
        { allowed: false, retryAfterMs: Infinity, remaining: 0 },
        `a cost of ${cost}`,
      );
    }
  }),
  ...forEach(COUNTING, 'a cost above the quota is refused for ever', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    const { allowed, retryAfterMs } = only(await limit.consume(QUOTA + 1));
    assert.deepEqual({ allowed, retryAfterMs }, { allowed: false, retryAfterMs: Infinity });
    await limit.expectWhole('after a cost that nothing admits');
    assert.equal((await limit.consume(QUOTA)).allowed, true, 'the whole quota is admitted');
  }),
];

const shadows: readonly Law[] = [
  ...forEach(EVERY, 'a limit in the shadow reports and never refuses', async (trial, make) => {
    const limiter = trial.limiter([
      { name: 'shadow', policy: make(1), mode: 'shadow' },
      { name: 'real', policy: make(3) },
    ]);
    const keys = { shadow: KEY, real: KEY };
    const said: unknown[] = [];
    for (let times = 0; times < 4; times++) {
      const { allowed, verdicts } = asked(await limiter.consume(keys));
      said.push([allowed, ...verdicts.map((verdict) => verdict.allowed)]);
    }
    assert.deepEqual(
      said,
      [
        [true, true, true],
        [true, false, true],
        [true, false, true],
        [false, false, false],
      ],
      'for each request: whether it is admitted, what the shadow says, what the real limit says',
    );
  }),
  ...forEach(EVERY, 'a limit in the shadow is charged with the request', async (trial, make) => {
    const limiter = trial.limiter([
      { name: 'shadow', policy: make(5), mode: 'shadow' },
      { name: 'real', policy: make(2) },
    ]);
    for (let times = 0; times < 4; times++) {
      asked(await limiter.consume({ shadow: KEY, real: KEY }));
    }
    const { remaining } = only(asked(await limiter.peek({ shadow: KEY })));
    assert.equal(remaining, 3, 'what two admitted requests of four left');
  }),
  {
    name: 'a limit in the shadow delays nobody',
    hold: async (trial) => {
      const policy = leakyBucket({ capacity: 5, rate: 1, per: '1s' });
      const limiter = trial.limiter([{ name: 'shadow', policy, mode: 'shadow' }]);
      for (let times = 0; times < 3; times++) {
        assert.equal(asked(await limiter.consume({ shadow: KEY })).delayMs, 0);
      }
    },
  },
];

/** What is charged, and what is not. */
export const ALL_OR_NOTHING: readonly Law[] = [...layers, ...untouched, ...shadows];
