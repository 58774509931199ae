import { createLimiter, tokenBucket } from '@tollgate/core';
import { type RedisStore, redisStore } from '@tollgate/core/redis';
import { Cluster, Redis } from 'ioredis';
import { Redis as Valkey } from 'iovalkey';
import { createClient, createCluster } from 'redis';

const node = { host: '127.0.0.1', port: 1 };
const stores: RedisStore[] = [
  redisStore(new Redis({ ...node, lazyConnect: true })),
  redisStore(new Cluster([node], { lazyConnect: true })),
  redisStore(new Valkey({ ...node, lazyConnect: true })),
  redisStore(createClient({ socket: node })),
  redisStore(createCluster({ rootNodes: [{ socket: node }] })),
];
const policy = tokenBucket({ capacity: 2, rate: 1, per: '1h' });

/** Nobody listens there, so that every limit is decided in memory. */
async function sources(): Promise<string[]> {
  const found: string[] = [];
  for (const store of stores) {
    const limiter = createLimiter({
      store,
      limits: [{ name: 'api', policy }],
      logger: { warn() {}, error() {} },
    });
    const decision = await limiter.consume({ api: 'ada' });
    found.push(decision.source);
    await limiter.close();
  }
  return found;
}

void sources().then((found) => console.log(JSON.stringify(found)));
