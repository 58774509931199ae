import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SCRIPT } from '../../packages/core/src/redis/engine.ts';
import { TIMES } from '../seed.ts';
import { LEASABLE, round, STEPS_OF_A_ROUND } from './grants.ts';
import { RedisServer } from './server.ts';

const ROUNDS = 6 * TIMES;
/** Rounds of each algorithm within which a bug must show. */
const ROUNDS_OF_A_BUG = 3;

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

async function load(script: string): Promise<string> {
  return String(await client.script('LOAD', script));
}

test.each(LEASABLE)('grants of a %s are those of the TypeScript rule', async (algorithm) => {
  const sha = await load(SCRIPT);
  const seen = { grants: 0, granted: 0, short: 0, shared: 0, banned: 0 };
  for (let times = 0; times < ROUNDS; times++) {
    const own = await round(client, sha, algorithm);
    for (const what of Object.keys(seen) as (keyof typeof seen)[]) seen[what] += own[what];
  }
  // Else not much is proven.
  expect(seen.grants).toBeGreaterThan((ROUNDS * STEPS_OF_A_ROUND) / 2);
  expect(seen.granted).toBeGreaterThan(seen.grants / 10);
  expect(seen.short).toBeGreaterThan(seen.grants / 20);
  expect(seen.shared).toBeGreaterThan(seen.grants / 50);
  expect(seen.banned).toBeGreaterThan(seen.grants / 200);
});

const BUGS: readonly (readonly [sound: string, bug: string])[] = [
  ['all = all and fits == times', ''],
  ['local fits = min(times, floor(left / cost))', 'local fits = floor(left / cost)'],
  ['floor(left / (2 * holders))', 'floor(left / holders)'],
  [`redis.call('ZREMRANGEBYSCORE', key, '-inf', format('%d', now - time))`, ''],
  ['local free = banned > 0 and 0 or remaining', 'local free = remaining'],
  ['elseif healed and healed[place] then', 'elseif false then'],
];

test.each(BUGS)('instead of %s, %s', async (sound, bug) => {
  expect(SCRIPT.split(sound)).toHaveLength(2);
  const sha = await load(SCRIPT.replace(sound, bug));
  const searched = async (): Promise<void> => {
    for (let times = 0; times < ROUNDS_OF_A_BUG; times++) {
      for (const algorithm of LEASABLE) await round(client, sha, algorithm);
    }
  };
  // By what it answers, that is, and not because it cannot run.
  await expect(searched()).rejects.toThrow('Redis say');
});
