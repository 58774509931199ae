import { Cluster, Command, Redis } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey';
import { createClient, createCluster, createSentinel, RESP_TYPES } from 'redis';
import { createClient as createClient5, createCluster as createCluster5 } from 'redis5';
import { afterAll, beforeAll, describe, expect, expectTypeOf, it, test, vi } from 'vitest';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import { TollgateConfigError, TollgateStoreError } from '../../packages/core/src/errors.ts';
import { createLimiter, type Limiter } from '../../packages/core/src/limiter.ts';
import { fixedWindow } from '../../packages/core/src/policy.ts';
import { connect } from '../../packages/core/src/redis/clients.ts';
import { type RedisClient, type RedisStore, redisStore } from '../../packages/core/src/redis.ts';
import type { Charge } from '../../packages/core/src/store.ts';
import { CuttingProxy } from './cutting-proxy.ts';
import { RedisServer } from './server.ts';
import { CLIENTS, type Given, type Subject, type Wishes } from './subjects.ts';

const MODES = ['own', 'shared'] as const;
type Mode = (typeof MODES)[number];
const EACH = CLIENTS.flatMap((subject) =>
  MODES.map((mode) => [subject.name, mode, subject] as const),
);

/** Far more than a call takes, since other tests run beside these. */
const deadlineMs = 5_000;
const soon = { timeout: 10_000 };
const policy = fixedWindow({ limit: 9, window: '1d' });
const rule = ruleOf(policy);

let server: RedisServer;
let control: Redis;
let guarded: RedisServer;
let root: Redis;
let keys = 0;

beforeAll(async () => {
  [server, guarded] = await Promise.all([
    RedisServer.start(),
    RedisServer.start(['--requirepass', 'root']),
  ]);
  control = new Redis(server.port, '127.0.0.1');
  root = new Redis({ port: guarded.port, host: '127.0.0.1', password: 'root', db: 3 });
  await root.call('ACL', 'SETUSER', 'alice', 'on', '>p@ss:w/rd', '~*', '&*', '+@all');
});

afterAll(async () => {
  control.disconnect();
  root.disconnect();
  await Promise.all([server.stop(), guarded.stop()]);
});

/** A key that no other test uses. */
function newKey(): string {
  return `key ${keys++}`;
}

function charge(key: string): Charge {
  return { name: 'api', key, rule, cost: 1, shadow: false, receipt: undefined };
}

function limiterOf(store: RedisStore): Limiter<RedisStore> {
  return createLimiter({ store, limits: [{ name: 'api', policy }] });
}

async function left(store: RedisStore, key: string): Promise<number | undefined> {
  const { verdicts } = await store.decide([charge(key)], 'peek');
  return verdicts[0]?.remaining;
}

async function connections(of: Redis, matching = ''): Promise<string[]> {
  const list = String(await of.call('CLIENT', 'LIST'))
    .trim()
    .split('\n');
  return list.filter((line) => line.includes(matching)).map((line) => line.split(' ')[0] ?? '');
}

/** A client, connected where it is to be shared. */
async function given(subject: Subject, mode: Mode, wishes: Wishes): Promise<Given> {
  const made = subject.make({ safe: mode === 'shared', ...wishes });
  if (mode === 'shared') await made.connect();
  return made;
}

/** What must be the same before and after: settings, listeners, and whether it is connected. */
function look({ client, options, isConnected }: Given): object {
  const listeners = client.eventNames().map((name) => [name, client.listeners(name)]);
  return { options: copy(options), listeners, connected: isConnected() };
}

function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copy(each)]));
}

describe.each(EACH)('%s, %s', (_, mode, subject) => {
  it('decides, with others on one budget, and leaves the client as it was', async () => {
    const [one, other] = await Promise.all([
      given(subject, mode, { port: server.port }),
      given(subject, mode, { port: server.port }),
    ]);
    await one.connect().catch(() => undefined);
    const before = look(one);
    const others = await connections(control);
    const stores = [one, other].map(({ client }) =>
      redisStore(client, { connection: mode, deadlineMs }),
    );
    const limiters = stores.map(limiterOf);
    const api = newKey();
    for (let taken = 1; taken <= 10; taken++) {
      const decision = await limiters[taken % 2]?.consume({ api });
      expect(decision).toMatchObject({ allowed: taken <= 9, remaining: Math.max(0, 9 - taken) });
      if (taken === 5) await control.script('FLUSH');
    }
    if (mode === 'own') expect(look(one)).toEqual(before);
    expect(await connections(control)).toHaveLength(others.length + (mode === 'own' ? 2 : 0));
    for (const limiter of limiters) await limiter.close();
    expect(look(one)).toEqual(before);
    expect(await one.ask('PING')).toBe('PONG');
    await expect.poll(() => connections(control), soon).toEqual(others);
    one.end();
    other.end();
  });

  it('charges once what was carried out before the connection broke', async () => {
    const proxy = await CuttingProxy.start(server.port);
    const made = await given(subject, mode, { port: proxy.port });
    const store = redisStore(made.client, { connection: mode, deadlineMs });
    const key = newKey();
    await store.decide([charge(key)], 'consume');
    proxy.cutNext();
    const started = performance.now();
    await expect(store.decide([charge(key)], 'consume')).rejects.toThrow(TollgateStoreError);
    expect(performance.now() - started).toBeLessThan(deadlineMs);
    await expect.poll(() => left(store, key).catch(() => 'down'), soon).toBe(7);
    await store.decide([charge(key)], 'consume');
    expect(await left(store, key)).toBe(6);
    await store.close();
    made.end();
    await proxy.stop();
  });
});

test('the same cut charges twice by the defaults of ioredis, which are warned of', async () => {
  const proxy = await CuttingProxy.start(server.port);
  const client = new Redis(proxy.port, '127.0.0.1');
  const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const store = redisStore(client, { connection: 'shared', deadlineMs });
  expect(emit).toHaveBeenCalledOnce();
  emit.mockRestore();
  const key = newKey();
  await store.decide([charge(key)], 'consume');
  proxy.cutNext();
  await store.decide([charge(key)], 'consume');
  expect(await left(store, key)).toBe(6);
  await store.close();
  client.disconnect();
  await proxy.stop();
});

describe.each(CLIENTS.map((subject) => [subject.name, subject] as const))('%s', (_, subject) => {
  it('need not be connected to be duplicated', async () => {
    const made = await given(subject, 'own', { port: server.port });
    const store = redisStore(made.client, { deadlineMs });
    expect(await left(store, newKey())).toBe(9);
    expect(made.isConnected()).toBe(false);
    await store.close();
    made.end();
  });

  it('keeps its user, password and database in the duplicate', async () => {
    const username = 'alice';
    const password = 'p@ss:w/rd';
    const url = `redis://alice:${encodeURIComponent(password)}@127.0.0.1:${guarded.port}/3`;
    for (const made of [
      subject.make({ port: guarded.port, username, password, db: 3 }),
      subject.fromUrl(url),
    ]) {
      const store = redisStore(made.client, { deadlineMs });
      await store.decide([charge('alice')], 'consume');
      expect(await connections(root, 'user=alice')).toHaveLength(1);
      expect(await root.dbsize()).toBe(1);
      await store.reset([{ name: 'api', key: 'alice' }]);
      expect(await root.dbsize()).toBe(0);
      await store.close();
      made.end();
      await expect.poll(() => connections(root, 'user=alice'), soon).toEqual([]);
    }
  });

  it('connects anew when its master was demoted, and goes on when it is a master again', async () => {
    const demoted = await RedisServer.start();
    const own = new Redis(demoted.port, '127.0.0.1');
    const made = subject.make({ port: demoted.port, more: { name: 'x', connectionName: 'x' } });
    const breaker = { failures: 1_000 };
    const store = redisStore(made.client, { deadlineMs, breaker });
    const key = newKey();
    await store.decide([charge(key)], 'consume');
    const before = await connections(own, 'name=x');
    expect(before).toHaveLength(1);
    await own.replicaof('127.0.0.1', demoted.port);
    await expect(store.decide([charge(key)], 'consume')).rejects.toThrow(TollgateStoreError);
    await expect.poll(async () => (await connections(own, 'name=x'))[0], soon).not.toBe(before[0]);
    await own.replicaof('NO', 'ONE');
    await expect.poll(() => left(store, key).catch(() => 'down'), soon).toBe(8);
    await store.decide([charge(key)], 'consume');
    expect(await left(store, key)).toBe(7);
    await store.close();
    own.disconnect();
    await demoted.stop();
  });

  it('gives up a connection for another, and leaves none behind', async () => {
    const more = { name: 'y', connectionName: 'y' };
    const connection = connect(subject.make({ port: server.port, more }).client, 'own', deadlineMs);
    connection.onError(() => undefined);
    await connection.ready();
    const first = await connections(control, 'name=y');
    connection.reconnect();
    await expect.poll(() => connections(control, 'name=y'), soon).not.toEqual(first);
    await expect.poll(() => connections(control, 'name=y'), soon).toHaveLength(1);
    await expect.poll(() => connection.isReady(), soon).toBe(true);
    expect(await connection.send(['PING'], undefined)).toBe('PONG');
    // At every moment of connecting.
    for (let turns = 0; turns < 8; turns++) {
      connection.reconnect();
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
    }
    await connection.close();
    await expect.poll(() => connections(control, 'name=y'), soon).toEqual([]);
  });
});

describe('a prefix that a client puts before its keys', () => {
  const prefixing = CLIENTS.filter(({ name }) => name !== 'redis 5');

  test.each(prefixing.map((subject) => [subject.name, subject] as const))(
    '%s: is put before the keys of limits, in both modes',
    async (_, subject) => {
      const keyPrefix = `${subject.name}:`;
      const key = newKey();
      for (const [index, mode] of MODES.entries()) {
        const made = await given(subject, mode, { port: server.port, more: { keyPrefix } });
        const store = redisStore(made.client, { connection: mode, deadlineMs });
        await store.decide([charge(key)], 'consume');
        expect(await left(store, key)).toBe(8 - index);
        expect(await control.keys(`${keyPrefix}tollgate:*`)).toHaveLength(1);
        if (mode === 'shared') await store.reset([{ name: 'api', key }]);
        await store.close();
        made.end();
      }
      expect(await control.keys(`*${keyPrefix}*`)).toEqual([]);
    },
  );

  it('is refused where the client would move keys to other slots by it', () => {
    const cluster = new Cluster([{ port: 1 }], { keyPrefix: 'app:', lazyConnect: true });
    expect(() => redisStore(cluster, { connection: 'shared' })).toThrow(TollgateConfigError);
    expect(() => redisStore(cluster, { connection: 'shared' })).toThrow(/keyPrefix.*prefix of/);
  });
});

describe('settings that change replies', () => {
  const strings = { [RESP_TYPES.NUMBER]: String };
  const once = { enableOfflineQueue: false, maxRetriesPerRequest: 0 };
  const pipelined = { ...once, stringNumbers: true, enableAutoPipelining: true };
  const online = { disableOfflineQueue: true } as const;
  const make = {
    'ioredis 6, as strings, in pipelines': () => new Redis(server.port, '127.0.0.1', pipelined),
    'ioredis 6, RESP 3': () =>
      new Redis(server.port, '127.0.0.1', { ...once, protocol: 3, replyMapping: 'resp3' }),
    'ioredis 6, with stacks of callers': () =>
      new Redis(server.port, '127.0.0.1', { ...once, showFriendlyErrorStack: true }),
    'ioredis 5, as strings, in pipelines': () => new Redis5(server.port, '127.0.0.1', pipelined),
    'iovalkey, as strings, in pipelines': () => new Valkey(server.port, '127.0.0.1', pipelined),
    'redis 6, RESP 2': () => createClient({ url: urlOf(server), ...online, RESP: 2 }).connect(),
    'redis 6, mapped to strings': async () =>
      (await createClient({ url: urlOf(server), ...online }).connect()).withTypeMapping(strings),
    'redis 5, RESP 3': () => createClient5({ url: urlOf(server), ...online, RESP: 3 }).connect(),
    'redis 5, mapped to strings': () =>
      createClient5({
        url: urlOf(server),
        ...online,
        commandOptions: { typeMapping: strings },
      }).connect(),
  };

  test.each(Object.entries(make))('%s', async (_, open) => {
    for (const mode of MODES) {
      const client: RedisClient = await open();
      const store = redisStore(client, { connection: mode, deadlineMs });
      const key = newKey();
      await Promise.all([1, 2, 3].map(() => store.decide([charge(key)], 'consume')));
      const { admitted, verdicts } = await store.decide([charge(key)], 'peek');
      expect(admitted).toBe(true);
      expect(verdicts).toMatchObject([{ allowed: true, remaining: 6, limit: 9 }]);
      await store.close();
      // A client of node-redis that was never connected needs no end, and its version 6.0 does not stand one.
      if (!('isOpen' in client)) client.disconnect();
      else client.destroy();
    }
  });

  it('reads what a transformer of ioredis made of a reply', async () => {
    for (const name of ['evalsha', 'EVALSHA']) {
      Command.setReplyTransformer(name, (reply: unknown[]) => reply.map(String));
    }
    const client = new Redis(server.port, '127.0.0.1', { lazyConnect: true });
    const store = redisStore(client, { deadlineMs });
    const key = newKey();
    await store.decide([charge(key)], 'consume');
    expect(await left(store, key)).toBe(8);
    await store.close();
    for (const name of ['evalsha', 'EVALSHA']) {
      Command.setReplyTransformer(name, (reply: unknown) => reply);
    }
  });
});

function urlOf({ port }: RedisServer): string {
  return `redis://127.0.0.1:${port}`;
}

describe('a shared client', () => {
  const port = 1;
  const rootNodes = [{ url: 'redis://127.0.0.1:1' }];
  const nodes = [{ port }];
  const unsafe: readonly (readonly [string, () => RedisClient, readonly RegExp[]])[] = [
    [
      'ioredis',
      () => new Redis({ port, lazyConnect: true, password: 's3cret', role: 'slave' }),
      [/enableOfflineQueue/, /maxRetriesPerRequest: 20 /, /role/],
    ],
    [
      'ioredis that never gives up',
      () => new Redis5({ port, lazyConnect: true, maxRetriesPerRequest: null }),
      [/maxRetriesPerRequest: null /],
    ],
    [
      'ioredis Cluster',
      () => new Cluster(nodes, { lazyConnect: true, enableAutoPipelining: true }),
      [/enableOfflineQueue/, /retryDelayOnFailover/, /enableAutoPipelining/],
    ],
    [
      'node-redis',
      () => createClient({ password: 's3cret', commandsQueueMaxLength: 5 }),
      [/ disableOfflineQueue.*true/, /commandsQueueMaxLength: 5 /],
    ],
    ['node-redis cluster', () => createCluster5({ rootNodes }), [/defaults\.disableOfflineQueue/]],
  ];

  test.each(unsafe)('%s: says once which settings are unsafe', async (_, make, said) => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const client = make();
    const stores = [1, 2].map(() => redisStore(client, { connection: 'shared' }));
    expect(emit.mock.calls).toMatchObject([
      [expect.any(String), { code: 'TOLLGATE_UNSAFE_CLIENT' }],
    ]);
    const text = String(emit.mock.calls[0]?.[0]);
    for (const words of said) expect(text).toMatch(words);
    expect(text).not.toContain('s3cret');
    emit.mockRestore();
    for (const store of stores) await store.close();
    // A client of node-redis that was never connected needs no end, and its version 6.0 does not stand one.
    if (!('isOpen' in client)) client.disconnect();
  });

  const redisOptions = { maxRetriesPerRequest: 0 };
  const safe: Readonly<Record<string, () => RedisClient>> = {
    ioredis: () =>
      new Redis({ port, lazyConnect: true, enableOfflineQueue: false, maxRetriesPerRequest: 0 }),
    'ioredis Cluster': () =>
      new Cluster(nodes, {
        lazyConnect: true,
        enableOfflineQueue: false,
        retryDelayOnFailover: 0,
        redisOptions,
      }),
    'node-redis': () => createClient({ disableOfflineQueue: true }),
    'node-redis cluster': () =>
      createCluster({ rootNodes, defaults: { disableOfflineQueue: true } }),
  };

  test.each(Object.entries(safe))('%s: is not complained of when it is safe', async (_, make) => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const client = make();
    const store = redisStore(client, { connection: 'shared' });
    expect(emit).not.toHaveBeenCalled();
    emit.mockRestore();
    await store.close();
    // A client of node-redis that was never connected needs no end, and its version 6.0 does not stand one.
    if (!('isOpen' in client)) client.disconnect();
  });
});

describe('what is no client that charges once', () => {
  it('is refused at start-up, with what may be passed', () => {
    for (const wrong of [undefined, null, 'redis://localhost', {}, { url: 'redis://localhost' }]) {
      expect(() => redisStore(wrong as unknown as RedisClient)).toThrow(TollgateConfigError);
      expect(() => redisStore(wrong as unknown as RedisClient)).toThrow(/ioredis.*node-redis/);
    }
  });

  it('is refused when it is a Sentinel of node-redis, which sends commands again', () => {
    const sentinel = createSentinel({
      name: 'main',
      sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }],
    });
    expect(() => redisStore(sentinel as unknown as RedisClient)).toThrow(/ioredis.*sentinels/);
  });
});

test('every client is taken without a cast', () => {
  const nodes = [{ port: 1 }];
  const rootNodes = [{ url: 'redis://127.0.0.1:1' }];
  const lazyConnect = true;
  const taken: Parameters<typeof redisStore>[0][] = [
    new Redis({ lazyConnect }),
    new Redis({ lazyConnect, sentinels: nodes, name: 'main' }),
    new Cluster(nodes, { lazyConnect }),
    new Redis5({ lazyConnect }),
    new Cluster5(nodes, { lazyConnect }),
    new Valkey({ lazyConnect }),
    new ValkeyCluster(nodes, { lazyConnect }),
    createClient(),
    createClient({ RESP: 2 }).withTypeMapping({ [RESP_TYPES.NUMBER]: String }),
    createCluster({ rootNodes }),
    createClient5(),
    createClient5({ RESP: 3 }),
    createCluster5({ rootNodes }),
  ];
  expect(taken).toHaveLength(13);
  expectTypeOf<string>().not.toExtend<RedisClient>();
  expectTypeOf<{ url: string }>().not.toExtend<RedisClient>();
});
