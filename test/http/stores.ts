import type { Store } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { RedisServer } from '../redis/server.ts';
import type { Clock } from './clock.ts';

/** A place where state may be: what holds over HTTP holds with each. */
export interface Place {
  readonly where: 'memory' | 'Redis';
  /** A store with nothing in it that goes by a clock. */
  readonly storeBy: (clock: Clock) => Store;
}

const SLOW_MACHINE_MS = 20_000;
let stores = 0;

/** Memory, and a Redis server of the test file's own. To be called at its top. */
export function places(): readonly Place[] {
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
  return [
    { where: 'memory', storeBy: ({ store }) => store },
    {
      where: 'Redis',
      storeBy: ({ now }) =>
        redisStore(client, { clock: now, prefix: `${stores++}:`, deadlineMs: SLOW_MACHINE_MS }),
    },
  ];
}
