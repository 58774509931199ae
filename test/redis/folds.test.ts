import { once } from 'node:events';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createLimiter,
  type Decision,
  fixedWindow,
  leakyBucket,
  type Limiter,
  type LimitOptions,
  memoryStore,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/core/src/index.ts';
import { redisStore } from '../../packages/core/src/redis.ts';
import { nextSeed } from '../seed.ts';
import { RedisServer } from './server.ts';

const SLOW_MACHINE_MS = 20_000;
const START = 1_764_500_000_000_000;

let server: RedisServer;
let client: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1', {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
  });
  await once(client, 'ready');
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

const POLICIES: readonly Policy[] = [
  tokenBucket({ capacity: 7, rate: 3, per: '1s' }),
  leakyBucket({ capacity: 5, rate: 10, per: '1s' }),
  fixedWindow({ limit: 6, window: '1s', spread: true }),
  slidingWindow({ limit: 6, window: '1s' }),
  slidingLog({ limit: 5, window: '1s' }),
];

/** A call made of a key while others are under way. */
interface Call {
  readonly key: string;
  readonly cost: number;
  /** Whether another limit is charged with it. */
  readonly both: boolean;
  readonly how: 'consume' | 'peek' | 'charge' | 'refund' | 'ban';
  /** Settled to so much, if it was admitted. */
  readonly actual: number | undefined;
}

const calls = fc.array(
  fc.record<Call>({
    key: fc.constantFrom('a', 'a', 'a', 'b'),
    cost: fc.constantFrom(1, 1, 1, 1, 2, 0),
    both: fc.constantFrom(false, false, false, true),
    how: fc.constantFrom(
      ...Array<'consume'>(12).fill('consume'),
      'peek',
      'charge',
      'refund',
      'ban',
    ),
    actual: fc.constantFrom(undefined, undefined, 0, 1, 3),
  }),
  { minLength: 2, maxLength: 40 },
);

const turns = fc.array(
  fc.record({ calls, step: fc.constantFrom(0, 1, 90_000, 400_000, 2_500_000) }),
  { minLength: 3, maxLength: 6 },
);

function run(limiter: Limiter, { key, cost, both, how }: Call): unknown {
  const keys = both ? { own: key, all: 'all' } : { own: key };
  if (how === 'consume') return limiter.consume(keys, { cost });
  if (how === 'peek') return limiter.peek(keys, { cost });
  if (how === 'ban') return limiter.ban({ own: key }, 50);
  return how === 'charge' ? limiter.charge(keys, cost) : limiter.refund(keys, cost);
}

const told = (answer: unknown): unknown =>
  answer === undefined ? 'done' : (answer as Decision).toJSON();

async function settled(limiter: Limiter, call: Call, answer: unknown): Promise<void> {
  const decision = answer as Decision | undefined;
  if (call.how !== 'consume' || call.actual === undefined || decision?.allowed !== true) return;
  await decision.settle({ own: call.actual });
}

test.each(POLICIES)(
  'calls made at once are answered as if one came after the other: $algorithm',
  async (policy) => {
    const limits: readonly LimitOptions[] = [
      { name: 'own', policy },
      { name: 'all', policy: tokenBucket({ capacity: 50, rate: 50, per: '1s' }) },
    ];
    let rounds = 0;
    let sent = 0;
    await fc.assert(
      fc.asyncProperty(turns, async (history) => {
        let now = START;
        const clock = (): number => now;
        const store = redisStore(client, {
          clock,
          connection: 'shared',
          deadlineMs: SLOW_MACHINE_MS,
          prefix: `folds ${policy.algorithm} ${rounds++}:`,
        });
        const redis = createLimiter({ store, limits });
        const memory = createLimiter({ store: memoryStore({ clock }), limits });
        for (const { calls: made, step } of history) {
          now += step;
          const expected = made.map((call) => run(memory, call));
          const answers = await Promise.all(made.map((call) => run(redis, call)));
          expect(answers.map(told)).toEqual(expected.map(told));
          // What a fold left behind is what can be given back.
          for (const [index, call] of made.entries()) {
            await settled(memory, call, expected[index]);
            await settled(redis, call, answers[index]);
          }
          sent += made.length;
        }
        memory.close();
        await redis.close();
      }),
      { seed: nextSeed(), numRuns: 40 },
    );
    expect(sent).toBeGreaterThan(1_000);
  },
);
