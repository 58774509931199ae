import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey } from 'iovalkey';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import { TollgateStoreError } from '../../packages/core/src/errors.ts';
import { fixedWindow } from '../../packages/core/src/policy.ts';
import { type RedisStore, redisStore } from '../../packages/core/src/redis.ts';
import type { Charge } from '../../packages/core/src/store.ts';
import { RedisServer } from './server.ts';

const NAME = 'main';
const LIMIT = 1_000_000;
const soon = { timeout: 10_000 };
const rule = ruleOf(fixedWindow({ limit: LIMIT, window: '1d' }));

let servers: RedisServer[] = [];
let master: RedisServer;
let replica: RedisServer;
let sentinel: RedisServer;
let asked: Redis;

beforeAll(async () => {
  master = await RedisServer.start();
  replica = await RedisServer.start(['--replicaof', `127.0.0.1 ${master.port}`]);
  servers = [master, replica];
});

afterAll(async () => {
  asked.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

/** Clients that are not connected yet. */
function makeClients(): (Redis | Redis5 | Valkey)[] {
  const sentinels = [{ host: '127.0.0.1', port: sentinel.port }];
  const options = { sentinels, name: NAME, lazyConnect: true };
  return [new Redis(options), new Redis5(options), new Valkey(options)];
}

async function roleOf({ port }: RedisServer): Promise<unknown> {
  const client = new Redis(port, '127.0.0.1');
  const [role, link, , state] = (await client.call('ROLE')) as unknown[];
  client.disconnect();
  return role === 'slave' ? `${role} of ${String(link)}, ${String(state)}` : role;
}

function charge(key: string): Charge {
  return { name: 'api', key, rule, cost: 1, shadow: false, receipt: undefined };
}

async function chargedIn(store: RedisStore, key: string): Promise<number> {
  const { verdicts } = await store.decide([charge(key)], 'peek');
  return LIMIT - (verdicts[0]?.remaining ?? LIMIT);
}

/** Charges one key, one after the other, and counts what was answered and what was not. */
class Charger {
  readonly key: string;
  readonly store: RedisStore;
  admitted = 0;
  failed = 0;
  /** How many were charged, by what was left after the last that was answered. */
  charged = 0;
  private isOver = false;
  private readonly running: Promise<void>;

  constructor(key: string, store: RedisStore) {
    this.key = key;
    this.store = store;
    this.running = this.run();
  }

  async end(): Promise<void> {
    this.isOver = true;
    await this.running;
    await this.store.close();
  }

  private async run(): Promise<void> {
    while (!this.isOver) {
      try {
        const { verdicts } = await this.store.decide([charge(this.key)], 'consume');
        this.admitted++;
        this.charged = LIMIT - (verdicts[0]?.remaining ?? 0);
      } catch (error) {
        expect(error).toBeInstanceOf(TollgateStoreError);
        this.failed++;
      }
      await sleep(5);
    }
  }
}

test('decisions go on at the new master after a failover, and none is charged twice', async () => {
  await expect.poll(() => roleOf(replica), soon).toMatch(/^slave.*connected$/);
  sentinel = await RedisServer.startSentinel(NAME, master);
  servers.push(sentinel);
  asked = new Redis(sentinel.port, '127.0.0.1');
  const clients = makeClients();
  const settings = clients.map(({ options }) => structuredClone(plain(options)));
  const chargers = clients.map(
    (client, index) => new Charger(`key ${index}`, redisStore(client, { deadlineMs: 2_000 })),
  );
  const admitted = (): number[] => chargers.map((charger) => charger.admitted);
  await expect.poll(() => Math.min(...admitted()), soon).toBeGreaterThan(10);

  // Refused until the Sentinel has found the replica.
  const failOver = (): Promise<unknown> => asked.call('SENTINEL', 'FAILOVER', NAME).catch(String);
  await expect.poll(failOver, { timeout: 20_000, interval: 200 }).toBe('OK');
  await expect.poll(() => roleOf(replica), soon).toBe('master');
  // It follows nobody any more, so what is charged there from now on is by those who found it.
  const direct = redisStore(new Redis(replica.port, '127.0.0.1', { lazyConnect: true }), {
    deadlineMs: 2_000,
  });
  const chargedThere = (): Promise<number[]> =>
    Promise.all(chargers.map(({ key }) => chargedIn(direct, key)));
  const atFirst = await chargedThere();
  const since = async (): Promise<number> =>
    Math.min(...(await chargedThere()).map((charged, i) => charged - (atFirst[i] ?? 0)));
  await expect.poll(since, soon).toBeGreaterThan(10);

  await Promise.all(chargers.map((charger) => charger.end()));
  for (const { key, admitted: answered, failed, charged } of chargers) {
    expect(await chargedIn(direct, key)).toBe(charged);
    // Each that was not answered may have been charged, once. The new master may lack what the old one took last.
    expect(charged).toBeLessThanOrEqual(answered + failed);
  }
  await direct.close();
  expect(clients.map(({ options }) => plain(options))).toEqual(settings);
});

/** Settings without their functions, which cannot be copied. */
function plain(options: object): object {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => typeof value !== 'function'),
  );
}
