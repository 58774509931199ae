import type { EventEmitter } from 'node:events';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis5';
import { Cluster as ValkeyCluster } from 'iovalkey';
import { createCluster } from 'redis';
import { createCluster as createCluster5 } from 'redis5';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import { TollgateStoreError } from '../../packages/core/src/errors.ts';
import { fixedWindow } from '../../packages/core/src/policy.ts';
import { type RedisClient, type RedisStore, redisStore } from '../../packages/core/src/redis.ts';
import type { Charge } from '../../packages/core/src/store.ts';
import { CuttingProxy } from './cutting-proxy.ts';
import { RedisServer } from './server.ts';

const deadlineMs = 5_000;
const soon = { timeout: 10_000 };
const password = 'p@ss:w/rd';
const rule = ruleOf(fixedWindow({ limit: 9, window: '1d' }));

/** A cluster of one node, which asks for a password, behind a proxy. */
let server: RedisServer;
let proxy: CuttingProxy;
let control: Redis;
let keys = 0;

beforeAll(async () => {
  server = await RedisServer.start([
    '--requirepass',
    password,
    '--cluster-enabled',
    'yes',
    '--cluster-announce-ip',
    '127.0.0.1',
  ]);
  proxy = await CuttingProxy.start(server.port);
  control = new Redis({ port: server.port, host: '127.0.0.1', password });
  await control.config('SET', 'cluster-announce-port', `${proxy.port}`);
  await control.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  while (!String(await control.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
});

afterAll(async () => {
  control.disconnect();
  await proxy.stop();
  await server.stop();
});

interface Made {
  readonly client: RedisClient & EventEmitter;
  readonly end: () => void;
}

/** The types of clients are too large to be compared in passing; `redisStore()` takes them as they are. */
function made(given: unknown): Made {
  const client = given as Made['client'];
  const end = (): void => {
    if ('status' in client) client.disconnect();
    else if (client.isOpen) client.destroy();
  };
  return { client, end };
}

const redisOptions = { password, maxRetriesPerRequest: 0 };
const once = { enableOfflineQueue: false, retryDelayOnFailover: 0 };
const settings = { lazyConnect: true, redisOptions };
const nodes = (): { host: string; port: number }[] => [{ host: '127.0.0.1', port: proxy.port }];
const roots = (): { url: string }[] => [{ url: `redis://127.0.0.1:${proxy.port}` }];
const defaults = { password, disableOfflineQueue: true };

const CLIENTS: Readonly<Record<string, (safe: boolean) => Made>> = {
  'ioredis 6': (safe) => made(new Cluster(nodes(), { ...settings, ...(safe && once) })),
  'ioredis 5': (safe) => made(new Cluster5(nodes(), { ...settings, ...(safe && once) })),
  iovalkey: (safe) => made(new ValkeyCluster(nodes(), { ...settings, ...(safe && once) })),
  'redis 6': (safe) =>
    made(createCluster({ rootNodes: roots(), defaults: safe ? defaults : { password } })),
  'redis 5': (safe) =>
    made(createCluster5({ rootNodes: roots(), defaults: safe ? defaults : { password } })),
};

function charge(key: string): Charge {
  return { name: 'api', key, rule, cost: 1, shadow: false, receipt: undefined };
}

async function left(store: RedisStore, key: string): Promise<number | undefined> {
  const { verdicts } = await store.decide([charge(key)], 'peek');
  return verdicts[0]?.remaining;
}

async function connections(): Promise<number> {
  return String(await control.call('CLIENT', 'LIST'))
    .trim()
    .split('\n').length;
}

/** How many listen to what the store may listen to. A cluster listens to itself too, and anew when it reconnects. */
function listeners({ client }: Made): number[] {
  return ['error', 'ready', 'connect', 'end'].map((event) => client.listenerCount(event));
}

describe.each(Object.entries(CLIENTS))('a cluster of %s', (_, make) => {
  it.each(['own', 'shared'] as const)(
    '%s: charges once what a broken connection hides',
    async (mode) => {
      const subject = make(mode === 'shared');
      subject.client.on('error', () => undefined);
      if (mode === 'shared') await subject.client.connect();
      const before = listeners(subject);
      const others = await connections();
      const store = redisStore(subject.client, { connection: mode, deadlineMs });
      const key = `key ${keys++}`;
      await store.decide([charge(key)], 'consume');
      await control.script('FLUSH');
      await store.decide([charge(key)], 'consume');
      proxy.cutNext();
      await expect(store.decide([charge(key)], 'consume')).rejects.toThrow(TollgateStoreError);
      await expect.poll(() => left(store, key).catch(() => 'down'), soon).toBe(6);
      await store.decide([charge(key)], 'consume');
      expect(await left(store, key)).toBe(5);
      await store.reset([{ name: 'api', key }]);
      expect(await left(store, key)).toBe(9);
      await store.close();
      if (mode === 'own') await expect.poll(connections, soon).toBe(others);
      expect(listeners(subject)).toEqual(before);
      subject.end();
      await expect.poll(connections, soon).toBe(1);
    },
  );
});
