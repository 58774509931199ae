import { TollgateStoreError } from '@tollgate/core';
import type { RedisStore } from '@tollgate/core/redis';
import type { Cluster, Redis } from 'ioredis';
import { UsageError } from '../usage.ts';
import { addressOf, type StoreValues } from './options.ts';

/** An operator waits longer than a request does. */
const DEADLINE_MS = 5_000;

/** A store in Redis, and how it is left. */
export interface OpenStore {
  readonly store: RedisStore;
  readonly close: () => void;
}

/**
 * Connects once, and says at once when that fails.
 *
 * @throws UsageError for an address that is none; TollgateStoreError when Redis is not there, or does not let us in.
 */
export async function openStore(action: string, values: StoreValues): Promise<OpenStore> {
  const url = addressOf(action, values);
  const { redisStore } = await import('@tollgate/core/redis');
  const client = clientFor(await load(), url, values.cluster === true);
  const errors: Error[] = [];
  client.on('error', (error) => errors.push(error));
  const { prefix, 'hash-tag': hashTag } = values;
  try {
    await client.connect();
  } catch (error) {
    client.disconnect();
    const [first = error as Error] = errors;
    const problem = reasonOf(first);
    throw new TollgateStoreError(`Redis at ${url.host} cannot be used: ${problem}`, 0);
  }
  const store = redisStore(client, {
    connection: 'shared',
    deadlineMs: DEADLINE_MS,
    ...(prefix !== undefined && { prefix }),
    // What the service's own function returns for the key.
    ...(hashTag !== undefined && { hashTag: () => hashTag }),
  });
  return { store, close: () => client.disconnect() };
}

interface Clients {
  readonly Redis: typeof Redis;
  readonly Cluster: typeof Cluster;
}

async function load(): Promise<Clients> {
  try {
    return await import('ioredis');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new UsageError(
      'tollgate keys needs the package ioredis; install it: npm install ioredis',
    );
  }
}

function clientFor({ Redis, Cluster }: Clients, url: URL, cluster: boolean): Redis | Cluster {
  const { protocol, hostname, port, username, password, pathname } = url;
  // Of an address in brackets.
  const host = hostname.replaceAll(/[[\]]/g, '');
  const node = {
    connectTimeout: DEADLINE_MS,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    lazyConnect: true,
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: {} }),
  };
  const address = { host, port: port === '' ? 6_379 : Number(port) };
  if (cluster) {
    return new Cluster([address], {
      redisOptions: node,
      lazyConnect: true,
      enableOfflineQueue: false,
      retryDelayOnFailover: 0,
      clusterRetryStrategy: () => null,
    });
  }
  const db = Number(pathname.slice(1));
  return new Redis({ ...node, ...address, db, retryStrategy: () => null });
}

/** Why a connection failed; a cluster says of its nodes why. */
function reasonOf(error: Error & { readonly lastNodeError?: Error }): string {
  const { message, code = 'no connection' }: NodeJS.ErrnoException = error.lastNodeError ?? error;
  return message === '' ? code : message;
}
