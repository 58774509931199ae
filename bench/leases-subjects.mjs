// Everything that decides on one hot key which many processes share, made alike: a promise per decision.
import { createLimiter, fixedWindow, memoryStore } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { RateLimiterRedis } from 'rate-limiter-flexible';

/** So that no window ends meanwhile. */
const WINDOW_MS = 400 * 86_400_000;
/** So that none is decided without Redis while others have the machine. */
const DEADLINE_MS = 10_000;

/** @param {(redis: import('ioredis').Redis) => import('@tollgate/core').Store} storeOf */
function tollgate(storeOf, lease) {
  return (redis, limit) => {
    const policy = fixedWindow({ limit, window: WINDOW_MS });
    const limits = [{ name: 'hot', policy, ...(lease && { lease }) }];
    const limiter = createLimiter({ store: storeOf(redis), limits, logger: SILENT });
    return {
      check: async () => (await limiter.consume({ hot: 'k' })).allowed,
      close: () => limiter.close(),
    };
  };
}

const SILENT = { warn() {}, error() {} };
const inRedis = (options) => (redis) => redisStore(redis, { deadlineMs: DEADLINE_MS, ...options });

export const OURS = {
  leases: 'Tollgate, leases',
  coalesced: 'Tollgate, no leases',
  each: 'Tollgate, a call each',
  memory: 'floor: Tollgate in memory',
};
export const PEER = 'rate-limiter-flexible, in-memory block';

/** @type {Record<string, (redis: import('ioredis').Redis, limit: number) => { check(): Promise<boolean>, close(): unknown }>} */
export const SUBJECTS = {
  [OURS.leases]: tollgate(inRedis({}), {}),
  [OURS.coalesced]: tollgate(inRedis({})),
  [OURS.each]: tollgate(inRedis({ batch: false })),
  [OURS.memory]: tollgate(() => memoryStore()),
  [PEER]: (redis, limit) => {
    const limiter = new RateLimiterRedis({
      storeClient: redis,
      points: limit,
      duration: 20 * 86_400,
      inMemoryBlockOnConsumed: limit,
    });
    return {
      check: () =>
        limiter.consume('k').then(
          () => true,
          (refusal) => {
            if (refusal instanceof Error) throw refusal;
            return false;
          },
        ),
      close: () => undefined,
    };
  },
};
