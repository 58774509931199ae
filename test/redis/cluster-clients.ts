import { Cluster } from 'ioredis';
import { createCluster } from 'redis';
import type { RedisClient } from '../../packages/core/src/redis/clients.ts';
import type { RedisCluster } from './cluster.ts';

/** A client of a cluster, and how it is ended. */
export interface ClusterClient {
  readonly client: RedisClient;
  close(): void;
}

/** Every client library that knows clusters. */
export const CLIENTS: readonly (readonly [
  string,
  (cluster: RedisCluster) => Promise<ClusterClient>,
])[] = [
  [
    'ioredis',
    (cluster) => {
      const client = new Cluster(cluster.addresses);
      client.on('error', () => undefined);
      return Promise.resolve({ client, close: () => client.disconnect() });
    },
  ],
  [
    'node-redis',
    async (cluster) => {
      const rootNodes = cluster.addresses.map((socket) => ({ socket }));
      const client = createCluster({ rootNodes });
      client.on('error', () => undefined);
      await client.connect();
      return { client, close: () => client.destroy() };
    },
  ],
];
