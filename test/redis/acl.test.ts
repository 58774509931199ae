import { readFileSync } from 'node:fs';
import { Cluster, Redis } from 'ioredis';
import { createCluster } from 'redis';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimiter } from '../../packages/core/src/limiter.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/core/src/policy.ts';
import { SCRIPT } from '../../packages/core/src/redis/engine.ts';
import { type RedisClient, redisStore } from '../../packages/core/src/redis.ts';
import { RedisServer } from './server.ts';
import { CLIENTS, type Subject } from './subjects.ts';

/** The rules that the page on operations tells people to set: one for every server, and what a cluster adds. */
const page = readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8');
const [rule = [], more = []] = [...page.matchAll(/^ACL SETUSER ((?:.*\\\n)*.*)/gm)].map(
  ([, words = '']) => words.split(/[\s\\]+/),
);
const [user = ''] = rule;
const commands = rule.filter((word) => word.startsWith('+')).map((word) => word.slice(1));
const PASSWORD = 'open-sesame';
/** What clients tell a server from 7.2 on, and need not: of this the page speaks beside the rule. */
const NEEDLESS = 'command client|setinfo';

const [ioredis] = CLIENTS as readonly [Subject];

const LIMITS = [
  { name: 'bucket', policy: tokenBucket({ capacity: 20, rate: 1, per: '1h' }) },
  { name: 'queue', policy: leakyBucket({ capacity: 20, rate: 1, per: '1h' }) },
  { name: 'fixed', policy: fixedWindow({ limit: 20, window: '1d' }) },
  { name: 'sliding', policy: slidingWindow({ limit: 20, window: '1d' }) },
  { name: 'log', policy: slidingLog({ limit: 20, window: '1d' }) },
];
const SLOTS = { name: 'slots', policy: concurrency({ limit: 2 }) };

let server: RedisServer;
let root: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  root = new Redis(server.port, '127.0.0.1');
});

afterAll(async () => {
  root?.disconnect();
  await server?.stop();
});

beforeEach(async () => {
  await root.flushall();
  await root.call('ACL', 'LOG', 'RESET');
});

/** Sets a rule of the page, with the password of these tests. */
async function setUser(root: Redis, words: readonly string[]): Promise<void> {
  const [name = '', ...rules] = words;
  const secret = rules.map((word) => (word.startsWith('>') ? `>${PASSWORD}` : word));
  await root.call('ACL', 'SETUSER', name, ...secret);
}

/** What was denied: the command, or the key, and why. */
async function denied(root: Redis): Promise<string[]> {
  const entries = (await root.call('ACL', 'LOG')) as string[][];
  const all = entries.map((entry) => {
    const about = (field: string): string | undefined => entry[entry.indexOf(field) + 1];
    return `${about('reason')} ${about('object')}`;
  });
  return all.filter((entry) => entry !== NEEDLESS);
}

/** All that a limiter asks of the store. Returns what failed. */
async function useAll(client: RedisClient): Promise<unknown[]> {
  const failures: unknown[] = [];
  const limiter = createLimiter({
    store: redisStore(client, { deadlineMs: 5_000, breaker: { failures: 1_000 } }),
    limits: [...LIMITS, SLOTS],
    onStoreError: (error) => void failures.push(error),
  });
  const counted = Object.fromEntries(LIMITS.map(({ name }) => [name, 'ada']));
  const decision = await limiter.consume({ ...counted, slots: 'ada' }, { cost: 5 });
  if (decision.source !== 'store') failures.push(decision.source);
  await limiter.peek({ ...counted, slots: 'ada' });
  await limiter.consume({ ...counted, slots: 'ada' }, { cost: 3 });
  await limiter.consume({ slots: 'ada' });
  await decision.settle({ bucket: 1, log: 1 });
  await decision.release();
  await limiter.ban({ log: 'ada' }, 60_000);
  await limiter.unban({ log: 'ada' });
  await limiter.charge(counted, 2);
  await limiter.refund(counted, 1);
  limiter.update('log', slidingLog({ limit: 20, window: '2d' }));
  await limiter.consume(counted);
  await limiter.reset({ ...counted, slots: 'ada' });
  await limiter.close();
  return failures;
}

describe('the ACL rule of the page', () => {
  it('names the commands of the script, and no key but the store’s', () => {
    const called = [...SCRIPT.matchAll(/redis\.call\('(\w+)'/g)].map(([, name = '']) => name);
    expect(called.length).toBeGreaterThan(10);
    const missing = called.filter((name) => !commands.includes(name.toLowerCase()));
    expect(missing).toEqual([]);
    expect(rule.filter((word) => word.startsWith('~'))).toEqual(['~tollgate:*']);
    expect(rule).toContain('-@all');
  });

  it.each(CLIENTS)('is enough for $name', async (subject) => {
    await setUser(root, rule);
    const given = subject.make({ port: server.port, username: user, password: PASSWORD });
    await root.script('FLUSH');
    expect(await useAll(given.client)).toEqual([]);
    expect(await denied(root)).toEqual([]);
  });

  it.each(commands)('needs %s', async (command) => {
    await setUser(root, [...rule, `-${command}`]);
    const { client } = ioredis.make({ port: server.port, username: user, password: PASSWORD });
    await root.script('FLUSH');
    await useAll(client).catch(() => undefined);
    expect(await denied(root)).toContain(`command ${command}`);
  });
});

describe('the ACL rule of the page for a cluster', () => {
  let node: RedisServer;
  let control: Redis;

  beforeAll(async () => {
    node = await RedisServer.start(['--cluster-enabled', 'yes']);
    control = new Redis(node.port, '127.0.0.1');
    await control.cluster('ADDSLOTSRANGE', 0, 16_383);
    // Without a neighbour to tell it, it does not know its own address.
    await control.config('SET', 'cluster-announce-ip', '127.0.0.1');
    await vi.waitFor(async () => {
      expect(await control.cluster('INFO')).toContain('cluster_state:ok');
    }, 10_000);
    await setUser(control, rule);
    await setUser(control, more);
  });

  afterAll(async () => {
    control?.disconnect();
    await node?.stop();
  });

  const nodeAddress = (): { host: string; port: number } => ({
    host: '127.0.0.1',
    port: node.port,
  });
  const account = { username: user, password: PASSWORD };

  it.each([
    ['ioredis', () => new Cluster([nodeAddress()], { redisOptions: account, lazyConnect: true })],
    [
      'redis',
      () => createCluster({ rootNodes: [{ socket: nodeAddress() }], defaults: { ...account } }),
    ],
  ] as const)('is enough for %s', async (_name, make) => {
    await control.call('ACL', 'LOG', 'RESET');
    expect(await useAll(make())).toEqual([]);
    expect(await denied(control)).toEqual([]);
  });

  it('lets a client follow a slot that is being moved', async () => {
    const client = new Redis({ ...nodeAddress(), ...account });
    expect(await client.call('ASKING')).toBe('OK');
    client.disconnect();
  });
});
