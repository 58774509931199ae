import { createLimiter, fixedWindow } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RedisServer } from './server.ts';

const TIMES = 20;
const SLOW_MACHINE_MS = 20_000;

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

/** How often each command is carried out meanwhile, those of scripts included. */
async function commandsOf(act: () => Promise<unknown>): Promise<Record<string, number>> {
  await client.config('RESETSTAT');
  for (let times = 0; times < TIMES; times++) await act();
  const counts: Record<string, number> = {};
  const lines = (await client.info('commandstats')).matchAll(/cmdstat_([\w|]+):calls=(\d+)/g);
  for (const [, name = '', calls] of lines) counts[name] = Number(calls);
  for (const own of ['config|resetstat', 'config', 'info']) delete counts[own];
  return counts;
}

const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((all, one) => all + one, 0);

test('a refusal while banned is one call, of no more commands than any refusal', async () => {
  const store = redisStore(client, { deadlineMs: SLOW_MACHINE_MS });
  const none = fixedWindow({ limit: 0, window: '1h' });
  const ban = { after: 1_000, within: '1h', for: '1h' } as const;
  const limiter = createLimiter({ store, limits: [{ name: 'login', policy: none, ban }] });
  const consume = async (login: string): Promise<string> =>
    (await limiter.consume({ login })).reason;
  await limiter.ban({ login: 'mallory' }, 3_600_000);
  await consume('ann');
  const limited = await commandsOf(() => consume('ann'));
  const banned = await commandsOf(() => consume('mallory'));
  expect([await consume('ann'), await consume('mallory')]).toEqual(['limited', 'banned']);
  expect([limited['evalsha'], banned['evalsha']]).toEqual([TIMES, TIMES]);
  expect(sum(banned)).toBeLessThanOrEqual(sum(limited));
  await limiter.close();
});
