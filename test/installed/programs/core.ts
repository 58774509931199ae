import { createLimiter, type Decision, tokenBucket } from '@tollgate/core';
import { redisStore, type RedisStoreOptions } from '@tollgate/core/redis';
import { manualClock, storeConformance } from '@tollgate/core/testing';

const limiter = createLimiter({
  limits: [{ name: 'api', policy: tokenBucket({ capacity: 2, rate: 1, per: '1h' }) }],
});
const decisions: Decision[] = [1, 2, 3].map(() => limiter.consume({ api: 'ada' }));
const options: RedisStoreOptions = { prefix: 'shop:' };
let refused = '';
try {
  // @ts-expect-error -- not a client
  redisStore({}, options);
} catch (error) {
  refused = (error as Error).name;
}
console.log(
  JSON.stringify([
    ...decisions.map(({ allowed }) => allowed),
    refused,
    typeof manualClock,
    typeof storeConformance,
  ]),
);
