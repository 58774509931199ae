import type { EventEmitter } from 'node:events';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey } from 'iovalkey';
import { createClient } from 'redis';
import { createClient as createClient5 } from 'redis5';
import type { RedisClient } from '../../packages/core/src/redis.ts';

/** How a client is to be made. */
export interface Wishes {
  readonly port: number;
  readonly username?: string;
  readonly password?: string;
  readonly db?: number;
  /** With the settings that are recommended for a client that is shared. */
  readonly safe?: boolean;
  /** What only some clients know. */
  readonly more?: object;
}

/** A client as a user would have made it, and what is asked of it in its own way. */
export interface Given {
  readonly client: RedisClient & EventEmitter;
  readonly options: object;
  readonly isConnected: () => boolean;
  readonly connect: () => Promise<unknown>;
  readonly ask: (command: string, ...args: string[]) => Promise<unknown>;
  /** Ends it at once, connected or not. */
  readonly end: () => void;
}

export interface Subject {
  readonly name: string;
  readonly kind: 'ioredis' | 'node-redis';
  /** Makes a client that is not connected yet. */
  readonly make: (wishes: Wishes) => Given;
  readonly fromUrl: (url: string) => Given;
}

type IoRedis = Redis | Redis5 | Valkey;
type NodeRedis = ReturnType<typeof nodeClient> | ReturnType<typeof nodeClient5>;

const SAFE = { enableOfflineQueue: false, maxRetriesPerRequest: 0 };

function ioRedis(name: string, open: (options: object, url?: string) => IoRedis): Subject {
  const given = (client: IoRedis): Given => {
    client.on('error', () => undefined);
    return {
      client,
      options: client.options,
      isConnected: () => client.status === 'ready',
      connect: () => client.connect(),
      ask: (command, ...args) => (client as Redis).call(command, ...args),
      end: () => client.disconnect(),
    };
  };
  return {
    name,
    kind: 'ioredis',
    make: ({ safe = false, more, ...rest }) =>
      given(open({ host: '127.0.0.1', lazyConnect: true, ...(safe && SAFE), ...rest, ...more })),
    fromUrl: (url) => given(open({ lazyConnect: true }, url)),
  };
}

function nodeClient(options: object): ReturnType<typeof createClient> {
  return createClient(options);
}

function nodeClient5(options: object): ReturnType<typeof createClient5> {
  return createClient5(options);
}

function nodeRedis(name: string, open: (options: object) => NodeRedis): Subject {
  const given = (client: NodeRedis): Given => {
    client.on('error', () => undefined);
    return {
      client,
      options: client.options ?? {},
      isConnected: () => client.isReady,
      connect: () => client.connect(),
      ask: (command, ...args) => client.sendCommand([command, ...args]),
      end: () => void (client.isOpen && client.destroy()),
    };
  };
  return {
    name,
    kind: 'node-redis',
    make: ({ port, db, safe = false, more, ...rest }) => {
      const socket = { host: '127.0.0.1', port };
      return given(
        open({
          socket,
          ...(db !== undefined && { database: db }),
          disableOfflineQueue: safe,
          ...rest,
          ...more,
        }),
      );
    },
    fromUrl: (url) => given(open({ url })),
  };
}

/** Every client that is not of a cluster. */
export const CLIENTS: readonly Subject[] = [
  ioRedis('ioredis 6', (options, url) =>
    url === undefined ? new Redis(options) : new Redis(url, options),
  ),
  ioRedis('ioredis 5', (options, url) =>
    url === undefined ? new Redis5(options) : new Redis5(url, options),
  ),
  ioRedis('iovalkey', (options, url) =>
    url === undefined ? new Valkey(options) : new Valkey(url, options),
  ),
  nodeRedis('redis 6', nodeClient),
  nodeRedis('redis 5', nodeClient5),
];
