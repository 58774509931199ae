import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Policy } from '../../packages/core/src/policy.ts';
import { SCRIPT, SHA } from '../../packages/core/src/redis/engine.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import { layered, round, single } from './bands.ts';
import { RedisServer } from './server.ts';

const SLOW_MACHINE_MS = 20_000;
/** Rounds of 3,200 steps within which a bug must show. */
const ROUNDS = 3;

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

/** A client that runs another script where the engine's is meant. */
async function running(script: string): Promise<Redis> {
  const sha = createHash('sha1').update(script).digest('hex');
  await client.script('LOAD', script);
  const { evalshaBuffer } = client as unknown as Record<string, (...args: unknown[]) => unknown>;
  const call = (own: string, ...args: unknown[]): unknown =>
    evalshaBuffer?.call(client, own === SHA ? sha : own, ...args);
  return new Proxy(client, {
    get(target, name) {
      const own: unknown = name === 'evalshaBuffer' ? call : Reflect.get(target, name);
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}

type Bug = readonly [algorithm: Policy['algorithm'] | 'layers', sound: string, bug: string];

const BUGS: readonly Bug[] = [
  ['token-bucket', '(to - from) * drain', '(to - from + 1) * drain'],
  ['token-bucket', 'ceil(over / drain)', 'floor(over / drain)'],
  ['token-bucket', 'if healed then state[3] = now end', ''],
  ['token-bucket', 'state[1] = ceil(held) * unit', 'state[1] = floor(held) * unit'],
  ['token-bucket', 'min(units * unit, leastDebt, state[1])', 'min(units * unit, state[1])'],
  ['token-bucket', 'if over > 0 then', 'if over >= 0 then'],
  [
    'leaky-bucket',
    'state[4] ~= 0 and state[5] == receipt[5] and state[1] > 0',
    'state[4] ~= 0 and state[1] > 0',
  ],
  ['leaky-bucket', 'state[5] = state[5] - units', ''],
  ['fixed-window', 'now >= state[1] + state[2] or', 'now > state[1] + state[2] or'],
  ['fixed-window', 'if not healed then state[3] = 0 end', 'state[3] = 0'],
  ['fixed-window', 'given = receipt[4] == state[4] and state[3] > 0', 'given = state[3] > 0'],
  ['sliding-window', 'passed == 1 and state[3] or 0', 'state[3]'],
  ['sliding-window', 'state[6] = state[5]', ''],
  ['sliding-window', 'ceil(product / whole)', 'floor(product / whole)'],
  ['sliding-window', 'state[3] = state[3] + weighted', ''],
  ['sliding-log', '<= latest then', '< latest then'],
  ['sliding-log', 'state.window = max(window, state.kept)', 'state.window = window'],
  ['sliding-log', 'min(units, state.count)', 'min(units + 1, state.count)'],
  ['concurrency', 'return found and tonumber(found) > slots.now', 'return found'],
  ['concurrency', 'return min(tonumber(found[2]), slots.latest)', 'return tonumber(found[2])'],
  ['concurrency', 'state.count + cost - room', 'state.count - room'],
  ['layers', ' and args[at + 7] == 0 then admitted = false end', ' then admitted = false end'],
  ['layers', 'if admitted and wait == 0', 'if wait == 0'],
  ['layers', 'if isFirm then', 'do'],
];

/** Rejects where what a script answers differs from memory and oracle. */
async function compared(script: string, algorithm: Bug[0], rounds: number): Promise<void> {
  const client = await running(script);
  const layers = algorithm === 'layers' ? layered : single(algorithm);
  const connect = (clock: () => number): RedisStore =>
    new RedisStore(client, { clock, connection: 'shared', deadlineMs: SLOW_MACHINE_MS });
  for (let times = 0; times < rounds; times++) await round(layers, connect);
}

test('the script itself is found sound', async () => {
  await compared(`${SCRIPT} `, 'layers', 1);
});

test.each(BUGS)('%s: instead of %s, %s', async (algorithm, sound, bug) => {
  expect(SCRIPT).toContain(sound);
  // By what it answers, that is, and not because it cannot run.
  const different = /the store says|Redis say/;
  const planted = SCRIPT.replaceAll(sound, bug);
  await expect(compared(planted, algorithm, ROUNDS)).rejects.toThrow(different);
});
