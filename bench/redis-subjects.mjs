// Everything that decides over Redis, made alike on ioredis: a promise per decision, and whether it is a right one.
import { createRequire } from 'node:module';
import { createLimiter, fixedWindow, slidingWindow, tokenBucket } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { RedisStore } from 'rate-limit-redis';
import { RateLimiterRedis } from 'rate-limiter-flexible';

const FastifyStore = createRequire(import.meta.url)('@fastify/rate-limit/store/RedisStore.js');

/** Nobody is ever refused. */
const LIMIT = 1_000_000_000;
const WINDOW_MS = 3_600_000;
/** So that none is decided without Redis while others have the machine. Timers cost the same however long they are. */
const DEADLINE_MS = 10_000;

/** A unit lasts six minutes, so that keys last as long as those of the others. */
const bucket = tokenBucket({ capacity: 10_000_000, rate: 10, per: WINDOW_MS });
const fixed = fixedWindow({ limit: LIMIT, window: WINDOW_MS });
const sliding = slidingWindow({ limit: LIMIT, window: WINDOW_MS });

/** @param {Record<string, object>} policies by the limits' names; the first is keyed by the key, the others are not. */
function tollgate(policies) {
  const limits = Object.entries(policies).map(([name, policy]) => ({ name, policy }));
  const [own, ...others] = Object.keys(policies);
  return (redis) => {
    const store = redisStore(redis, { deadlineMs: DEADLINE_MS });
    const limiter = createLimiter({ store, limits });
    return {
      check(key, index) {
        const keys = { [own]: key };
        for (const name of others) keys[name] = `${name}-${index % 100}`;
        return limiter.consume(keys);
      },
      decided: ({ allowed, source }) => allowed && source === 'store',
    };
  };
}

export const FLOORS = { incr: 'floor: INCR', script: 'floor: EVALSHA return 1' };
export const OURS = {
  bucket: 'Tollgate, token bucket',
  fixed: 'Tollgate, fixed window',
  layers: 'Tollgate, 4 layers',
};
export const PEERS = ['rate-limit-redis', 'rate-limiter-flexible', '@fastify/rate-limit'];

/** @type {Record<string, (redis: import('ioredis').Redis) => unknown>} given a client that is connected */
export const SUBJECTS = {
  [FLOORS.incr]: (redis) => ({
    check: (key) => redis.incr(key),
    decided: (count) => count > 0,
  }),
  [FLOORS.script]: async (redis) => {
    const sha = await redis.script('LOAD', 'return 1');
    return {
      check: (key) => redis.evalsha(sha, 1, key),
      decided: (answer) => answer === 1,
    };
  },
  [OURS.bucket]: tollgate({ address: bucket }),
  [OURS.fixed]: tollgate({ address: fixed }),
  [OURS.layers]: tollgate({ address: bucket, key: sliding, tenant: fixed, route: bucket }),
  // Its store alone: what express-rate-limit adds around it is the same in memory.
  'rate-limit-redis': async (redis) => {
    const store = new RedisStore({
      sendCommand: (command, ...args) => redis.call(command, ...args),
    });
    await store.init({ windowMs: WINDOW_MS });
    return {
      check: (key) => store.increment(key),
      decided: ({ totalHits }) => totalHits <= LIMIT,
    };
  },
  'rate-limiter-flexible': (redis) => {
    const limiter = new RateLimiterRedis({
      storeClient: redis,
      points: LIMIT,
      duration: WINDOW_MS / 1_000,
    });
    return {
      check: (key) => limiter.consume(key),
      decided: ({ remainingPoints }) => remainingPoints > 0,
    };
  },
  // Its store alone, as above.
  '@fastify/rate-limit': (redis) => {
    const store = new FastifyStore(false, false, redis);
    return {
      check: (key) =>
        new Promise((resolve, reject) => {
          store.incr(
            key,
            (error, answer) => (error ? reject(error) : resolve(answer)),
            WINDOW_MS,
            LIMIT,
          );
        }),
      decided: ({ current }) => current <= LIMIT,
    };
  },
};
