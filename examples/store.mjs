// Where an example keeps its budgets: in the Redis that REDIS_URL names, shared by every process that is started with
// it, or in the memory of its own process.
import { memoryStore } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';

/**
 * Long, since an example is asked in the moment it starts, when its code is cold and its connection not yet made. In a
 * service leave it at the default of 100 ms: a request that waits for Redis longer than that is better decided without.
 */
const DEADLINE_MS = 2_000;

/**
 * Makes the store that the environment asks for. Closing it, as the last limiter on it does, ends its connection.
 *
 * @param {string} service the namespace of its keys, so that services which share a Redis keep out of each other's way
 * @returns {{ store: import('@tollgate/core').Store, where: string }} `where` is for people, and holds no password
 */
export function storeFor(service) {
  const url = process.env.REDIS_URL ?? '';
  if (url === '') return { store: memoryStore(), where: 'in memory' };
  const { host } = parsed(url);
  // Of this client only the settings are taken: the store connects by itself, and this one never does.
  const redis = new Redis(url, { lazyConnect: true });
  const store = redisStore(redis, { prefix: `tollgate:${service}:`, deadlineMs: DEADLINE_MS });
  return { store, where: `in Redis at ${host}, shared by all that have this REDIS_URL` };
}

/** What is wrong is told without the text, which may hold a password. */
function parsed(text) {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.host && /^rediss?:$/.test(url.protocol)) return url;
  console.error('REDIS_URL: expected an address such as redis://127.0.0.1:6379');
  return process.exit(1);
}
