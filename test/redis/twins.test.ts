import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Rule } from '../../packages/core/src/algorithm.ts';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/core/src/policy.ts';
import { createLimiter } from '../../packages/core/src/limiter.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import type { Charge } from '../../packages/core/src/store.ts';
import { ALGORITHMS } from '../../packages/core/test/exactness-policies.ts';
import { TIMES } from '../seed.ts';
import { layered, round, single, STEPS_OF_A_ROUND } from './bands.ts';
import { RedisServer } from './server.ts';

const SLOW_MACHINE_MS = 20_000;
const ROUNDS = 4 * TIMES;
const LAYERED_ROUNDS = 10 * TIMES;

let server: RedisServer;
let client: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1');
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

const connect = (clock: () => number): RedisStore =>
  new RedisStore(client, { clock, deadlineMs: SLOW_MACHINE_MS });

function charge(rule: Rule, cost: number, key = 'k'): Charge {
  return { name: 'a', key, rule, cost, shadow: false, receipt: undefined };
}

test('there are a hundred thousand steps', () => {
  const rounds = ALGORITHMS.length * ROUNDS + LAYERED_ROUNDS;
  expect(rounds * STEPS_OF_A_ROUND).toBeGreaterThanOrEqual(100_000 * TIMES);
});

describe(
  'memory, oracle and Redis answer alike, field by field',
  { timeout: 120_000 * TIMES },
  () => {
    test.each(ALGORITHMS)('%s', async (algorithm) => {
      for (let times = 0; times < ROUNDS; times++) await round(single(algorithm), connect);
    });

    test('several limits at once, all or nothing', async () => {
      for (let times = 0; times < LAYERED_ROUNDS; times++) await round(layered, connect);
    });
  },
);
test('every key that a decision leaves has a time to live', async () => {
  const own = new RedisStore(client, { prefix: 'ttl:', deadlineMs: SLOW_MACHINE_MS });
  const policies: readonly Policy[] = [
    tokenBucket({ capacity: 5, rate: 3, per: '1s' }),
    leakyBucket({ capacity: 5, rate: 3, per: '1s' }),
    fixedWindow({ limit: 4, window: '1s' }),
    slidingWindow({ limit: 4, window: '1s' }),
    slidingLog({ limit: 4, window: '1s' }),
    concurrency({ limit: 3, slotTimeout: '1s' }),
  ];
  for (const policy of policies) {
    await own.decide([charge(ruleOf(policy), 1)], 'consume');
  }
  const keys = await client.keys('ttl:*');
  expect(keys).toHaveLength(policies.length);
  for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(0);
  await own.close();
});

test('units are given back to a log whose window is as long as its clock is late', async () => {
  let now = 9;
  const own = new RedisStore(client, {
    prefix: 'early:',
    clock: () => now,
    deadlineMs: SLOW_MACHINE_MS,
  });
  const limiter = createLimiter({
    store: own,
    limits: [{ name: 'log', policy: slidingLog({ limit: 6, window: 3 }) }],
  });
  await limiter.consume({ log: 'k' });
  now = 3_000;
  const decision = await limiter.consume({ log: 'k' }, { cost: 4 });
  await decision.settle(0);
  now = 5_000;
  expect((await limiter.consume({ log: 'k' })).remaining).toBe(5);
  await limiter.close();
});

test('a refusal by another policy, right after one that healed a clock, changes nothing', async () => {
  let now = 10_000_000;
  const own = new RedisStore(client, {
    prefix: 'healed:',
    clock: () => now,
    deadlineMs: SLOW_MACHINE_MS,
  });
  const first = ruleOf(tokenBucket({ capacity: 5, rate: 1, per: '1s' }));
  const second = ruleOf(tokenBucket({ capacity: 5, rate: 7, per: '3s' }));
  const made = charge(first, 5);
  await own.decide([made], 'consume');
  now = 9_000_000;
  const answers = await Promise.all([
    // What is asked while this is under way goes out together.
    own.decide([charge(first, 1, 'another')], 'consume'),
    own.decide([charge(first, 1)], 'consume'),
    own.decide([charge(second, 1)], 'consume'),
  ]);
  expect(answers.map(({ admitted }) => admitted)).toEqual([true, false, false]);
  await own.correct([{ charge: made, units: -5 }]);
  const { verdicts } = await own.decide([charge(first, 1)], 'peek');
  expect(verdicts[0]?.remaining).toBe(5);
  await own.close();
});
