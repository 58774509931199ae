import { once } from 'node:events';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  type Limiter,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/core/src/index.ts';
import { redisStore, type RedisStore } from '../../packages/core/src/redis.ts';
import { nextSeed } from '../seed.ts';
import { RedisServer } from './server.ts';

const SLOW_MACHINE_MS = 20_000;
/** What a call takes, on a slow machine. Policies say how long a key lives in steps that are far longer. */
const SLACK_MS = 2_000;

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

/** Policies of one algorithm that give way to one another on live keys. */
const POLICIES: Readonly<Record<string, readonly Policy[]>> = {
  'fixed windows': ['40s', '10m', '3h'].map((window) => fixedWindow({ limit: 50, window })),
  'sliding windows': ['40s', '10m', '3h'].map((window) => slidingWindow({ limit: 50, window })),
  'sliding logs': ['40s', '10m', '3h'].map((window) => slidingLog({ limit: 50, window })),
  'token buckets': [40, 600, 10_800].map((per) =>
    tokenBucket({ capacity: 50, rate: 1, per: `${per}s` }),
  ),
  'leaky buckets': [40, 600, 10_800].map((per) =>
    leakyBucket({ capacity: 50, rate: 1, per: `${per}s` }),
  ),
};

const change = fc.oneof(
  fc.record({
    how: fc.constantFrom('consume', 'cancel', 'charge', 'refund'),
    cost: fc.integer({ min: 0, max: 4 }),
  }),
  fc.record({ how: fc.constant('update'), to: fc.nat({ max: 2 }) }),
  fc.record({ how: fc.constant('reset') }),
);
type Change = Partial<{ how: string; cost: number; to: number }>;

/** Whether it wrote the key. Until it is written, a key lives as long as the policy said by which it was written last. */
async function make(
  { how, cost = 0, to = 0 }: Change,
  limiter: Limiter<RedisStore>,
  keys: { a: string },
  policies: readonly Policy[],
): Promise<boolean> {
  if (how === 'update') limiter.update('a', policies[to] as Policy);
  else if (how === 'reset') await limiter.reset(keys);
  else if (how === 'refund') await limiter.refund(keys, cost);
  else if (how === 'charge') return (await limiter.charge(keys, cost)).allowed && cost > 0;
  else {
    const decision = await limiter.consume(keys, { cost });
    if (how === 'cancel') await decision.cancel();
    return decision.allowed && cost > 0;
  }
  return false;
}

test.each(Object.entries(POLICIES))(
  'keys of %s live until they are whole again, whatever was written before',
  async (_, policies) => {
    const limits = [{ name: 'a', policy: policies[0] as Policy }];
    const store = redisStore(client, { connection: 'shared', deadlineMs: SLOW_MACHINE_MS });
    const limiter = createLimiter({ store, limits });
    let compared = 0;
    for (const [run, history] of fc
      .sample(fc.array(change, { minLength: 20, maxLength: 40 }), { numRuns: 40, seed: nextSeed() })
      .entries()) {
      const keys = { a: `${limits[0]?.policy.algorithm}-${run}` };
      for (const [step, made] of history.entries()) {
        const hasWritten = await make(made, limiter, keys, policies);
        const [name] = await client.keys(`*${keys.a}`);
        const { resetAfterMs } = await limiter.peek(keys);
        const livesMs = name === undefined ? -2 : await client.pttl(name);
        const said = `${name} after step ${step} of run ${run}`;
        // Without an end a key would stay for ever.
        expect(livesMs, said).not.toBe(-1);
        if (!hasWritten || resetAfterMs < SLACK_MS) continue;
        compared++;
        expect(livesMs, said).toBeGreaterThan(resetAfterMs - SLACK_MS);
        expect(livesMs, said).toBeLessThan(resetAfterMs + SLACK_MS);
      }
    }
    expect(compared).toBeGreaterThan(100);
  },
);
