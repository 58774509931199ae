import { storeConformance } from '@tollgate/core/testing';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { redisStore } from '@tollgate/core/redis';
import { RedisServer } from './server.ts';

const SLOW_MACHINE_MS = 20_000;

let server: RedisServer;
let ioredis: Redis;
let nodeRedis: ReturnType<typeof createClient>;
let stores = 0;

beforeAll(async () => {
  server = await RedisServer.start();
  ioredis = new Redis(server.port, '127.0.0.1');
  nodeRedis = createClient({ socket: { host: '127.0.0.1', port: server.port } });
  await nodeRedis.connect();
});

afterAll(async () => {
  ioredis.disconnect();
  nodeRedis.destroy();
  await server.stop();
});

describe.each([
  ['ioredis', () => ioredis],
  ['node-redis', () => nodeRedis],
] as const)('the Redis store on %s', (_, client) => {
  const cases = storeConformance({
    make: (clock) =>
      redisStore(client(), { clock, prefix: `${stores++}:`, deadlineMs: SLOW_MACHINE_MS }),
  });
  for (const { name, run } of cases) test(name, run);
});
