import { createLimiter, fixedWindow, type Limiter, type RefusedKey } from '@tollgate/core';
import { redisStore, type RedisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HeavyHitters } from '../../packages/core/src/refusals/heavy-hitters.ts';
import { tallyOf } from '../../packages/core/src/refusals/recent.ts';
import { build } from '../readme/built.ts';
import { CuttingProxy } from './cutting-proxy.ts';
import { Fleet } from './fleet.ts';
import { limiterOn, PATIENT, storeAt } from './limiters.ts';
import { RedisServer } from './server.ts';

const HOUR_MS = 3_600_000;
const closed = fixedWindow({ limit: 0, window: '1d' });
const FLEET = { fleet: true } as const;

let server: RedisServer;
let root: Redis;

beforeAll(async () => {
  build();
  server = await RedisServer.start();
  root = new Redis(server.port, '127.0.0.1');
}, 180_000);

afterAll(async () => {
  root?.disconnect();
  await server?.stop();
});

beforeEach(() => root.flushall());

/** A process's limiter, as far as Redis can tell. */
function member(
  options: { store?: RedisStore; clock?: () => number; logKeys?: 'hash' | false } = {},
): Limiter<RedisStore> {
  const { clock, store, logKeys } = options;
  return createLimiter({
    store: store ?? storeAt(server.port, { ...PATIENT, ...(clock && { clock }) }),
    limits: [
      { name: 'api', policy: closed },
      { name: 'login', policy: closed },
    ],
    ...(logKeys !== undefined && { logKeys }),
  });
}

async function refuse(limiter: Limiter<RedisStore>, key: string, times = 1): Promise<void> {
  await Promise.all(Array.from({ length: times }, () => limiter.consume({ api: key })));
}

/** All that Redis holds of the list: its keys, and what they hold. */
async function stored(): Promise<Map<string, string>> {
  const keys = await root.keys('*#*');
  return new Map(
    await Promise.all(keys.map(async (key) => [key, (await root.get(key)) ?? ''] as const)),
  );
}

describe('the most refused keys of a fleet', () => {
  it('are those of all its members, each counted once', async () => {
    const [one, other] = [member(), member()];
    await refuse(one, 'ada', 3);
    await refuse(other, 'ada', 4);
    await other.consume({ login: 'bob' });
    // Whoever asks hands on what it has; the other one does when it closes.
    await other.close();
    const list = await one.mostRefused(undefined, FLEET);
    expect(list).toMatchObject([
      { limit: 'api', key: 'ada', count: 7, errorBound: 0, perMinute: 7, shadow: false },
      { limit: 'login', key: 'bob', count: 1, errorBound: 0 },
    ]);
    const [ada] = list as [RefusedKey];
    expect(Math.abs(ada.lastAtMs - Date.now())).toBeLessThan(60_000);
    expect(await one.mostRefused('login', FLEET)).toHaveLength(1);
    expect(one.mostRefused('api')).toMatchObject([{ count: 3 }]);
    await one.close();
  });

  it('are those of processes that came and went, found without knowing their limits', async () => {
    const fleet = Fleet.start(3, server.port);
    await fleet.run({
      prefix: 'shop:',
      limits: [{ name: 'orders', policy: closed }],
      keysOf: (index) => ({ orders: index === 0 ? 'acme' : 'zenith' }),
      rounds: 2,
      costs: [1, 1, 1, 1, 1],
    });
    await fleet.close();
    await fleet.stop();
    const store = storeAt(server.port, { ...PATIENT, prefix: 'shop:' });
    expect(await store.mostRefused(undefined, 20, 24)).toMatchObject([
      { limit: 'orders', key: 'zenith', count: 20 },
      { limit: 'orders', key: 'acme', count: 10 },
    ]);
    expect(await store.mostRefused(['orders'], 1, 1)).toHaveLength(1);
    expect(await storeAt(server.port, PATIENT).mostRefused(undefined, 20, 24)).toEqual([]);
  });

  it('are kept by the hour for a day', async () => {
    let hour = 500_000;
    const limiter = member({ clock: () => hour * HOUR_MS * 1_000 });
    await refuse(limiter, 'early', 2);
    await limiter.mostRefused('api', FLEET);
    hour += 5;
    await refuse(limiter, 'late');
    const keys = async (hours: number): Promise<string[]> =>
      (await limiter.mostRefused('api', { fleet: true, hours })).map(({ key }) => key);
    expect(await keys(24)).toEqual(['early', 'late']);
    expect(await keys(4)).toEqual(['late']);
    for (const key of (await stored()).keys()) {
      const ttl = await root.pttl(key);
      expect(ttl).toBeGreaterThan(24 * HOUR_MS);
      expect(ttl).toBeLessThanOrEqual(26 * HOUR_MS);
    }
    hour += 22;
    expect(await keys(24)).toEqual(['late']);
    await limiter.close();
  });

  it('are hashed, or without keys, as logKeys says', async () => {
    const [hashing, silent] = [member({ logKeys: 'hash' }), member({ logKeys: false })];
    await refuse(hashing, 'a-secret', 3);
    await refuse(silent, 'a-secret', 2);
    await silent.close();
    expect(await hashing.mostRefused('api', FLEET)).toMatchObject([
      { key: expect.stringMatching(/^[\w-]{22}$/), count: 3 },
      { key: '', count: 2 },
    ]);
    for (const text of (await stored()).values()) expect(text).not.toContain('a-secret');
    await hashing.close();
  });

  it('may hold any text', async () => {
    const limiter = member();
    const keys = ['"}]', '\u0000\n\u001B[2J', '\uD800', '😀'.repeat(300), '__proto__', 'a b'];
    for (const key of keys) await refuse(limiter, key);
    const list = await limiter.mostRefused('api', FLEET);
    expect(new Set(list.map(({ key }) => key))).toEqual(
      new Set(limiter.mostRefused('api').map(({ key }) => key)),
    );
    expect(list).toHaveLength(keys.length);
    await limiter.close();
  });

  it('begin anew where Redis holds something else', async () => {
    const limiter = member();
    await refuse(limiter, 'ada');
    await limiter.mostRefused('api', FLEET);
    for (const key of (await stored()).keys()) await root.set(key, '[1');
    expect(await limiter.mostRefused('api', FLEET)).toEqual([]);
    await refuse(limiter, 'ada', 2);
    expect(await limiter.mostRefused('api', FLEET)).toMatchObject([{ count: 2 }]);
    await limiter.close();
  });
});

describe('what is handed on', () => {
  it('stays small in a flood of new keys, long ones too', async () => {
    const store = storeAt(server.port, PATIENT);
    for (let round = 0; round < 100; round++) {
      const sketch = new HeavyHitters(100);
      for (let i = 0; i < 1_000; i++) {
        sketch.count(`${'x'.repeat(200)}-${round}-${i}`, 500_000 * HOUR_MS);
      }
      await store.tally([tallyOf('api', false, sketch, (key) => key)]);
    }
    expect((await stored()).size).toBe(2);
    const [key = ''] = (await root.keys('*#:api:*')) as string[];
    const bytes = await root.memory('USAGE', key);
    // 200 keys of 207 bytes and five numbers each.
    expect(bytes).toBeLessThan(80_000);
  });

  it('is no more than the rest of a flood while Redis is down, and arrives when it is up', async () => {
    const down = await RedisServer.start();
    const store = storeAt(down.port, { deadlineMs: 200, breaker: { failures: 1, probeMs: 50 } });
    const { limiter } = limiterOn(store, { policy: closed });
    await limiter.consume({ a: 'ada' });
    await limiter.mostRefused('a', FLEET);
    await down.stop('SIGKILL');
    for (let i = 0; i < 3_000; i++) await limiter.consume({ a: `flood-${i}` });
    await expect(limiter.mostRefused('a', FLEET)).rejects.toMatchObject({ code: 'TOLLGATE_STORE' });
    const again = await RedisServer.start([], down.port);
    await expect.poll(() => limiter.health().store, { timeout: 20_000 }).toBe('up');
    const list = await limiter.mostRefused('a', { fleet: true, count: 200 });
    expect(list).toHaveLength(100);
    expect(list[0]?.errorBound).toBeLessThanOrEqual(30);
    await limiter.close();
    await again.stop();
  });

  it('is counted once, whether or not Redis was heard to count it', async () => {
    const proxy = await CuttingProxy.start(server.port);
    const store = storeAt(proxy.port, PATIENT);
    const { limiter, errors } = limiterOn(store, { policy: closed });
    await limiter.consume({ a: 'ada' });
    proxy.cutNext();
    // Redis carries it out, and its answer is lost.
    await limiter.mostRefused('a', FLEET).catch(() => undefined);
    expect(errors).toHaveLength(1);
    await expect
      .poll(() => limiter.consume({ a: 'ada' }), { timeout: 20_000 })
      .toMatchObject({ source: 'store' });
    const counted = limiter.mostRefused('a')[0]?.count ?? 0;
    const [ada] = await limiter.mostRefused('a', FLEET);
    expect(ada?.count).toBe(counted);
    await limiter.close();
    await proxy.stop();
  });

  it('takes nobody’s right to decide away where Redis does not take it', async () => {
    await root.call(...(['ACL', 'SETUSER', 'narrow', 'on', '>pw', '~*', '+@all', '-get'] as const));
    const client = new Redis({ port: server.port, username: 'narrow', password: 'pw' });
    client.on('error', () => undefined);
    const store = redisStore(client, { ...PATIENT, breaker: { failures: 1 } });
    await expect(
      store.tally([tallyOf('api', false, new HeavyHitters(1), (key) => key)]),
    ).rejects.toThrow('most refused keys');
    expect(store.health().store).toBe('up');
    await store.close();
    client.disconnect();
  });
});
