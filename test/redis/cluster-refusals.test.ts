import { createLimiter, fixedWindow, type Limiter } from '@tollgate/core';
import { type RedisStore, redisStore } from '@tollgate/core/redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClusterClient, CLIENTS } from './cluster-clients.ts';
import { RedisCluster } from './cluster.ts';

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
});

afterAll(() => cluster.stop());

const closed = fixedWindow({ limit: 0, window: '1d' });
const NAMES = ['api', 'login', 'search', 'export', 'upload'];

describe.each(CLIENTS)('%s', (name, open) => {
  let opened: ClusterClient;

  beforeAll(async () => {
    opened = await open(cluster);
  });

  afterAll(() => opened.close());

  it.each([
    ['', undefined],
    ['with a hash tag ', ({ api = '' }: Readonly<Record<string, string>>) => `t${api}`],
  ] as const)('%slists what members refused, from all slots', async (tag, hashTag) => {
    const member = (): Limiter<RedisStore> =>
      createLimiter({
        store: redisStore(opened.client, {
          deadlineMs: 20_000,
          prefix: `${name}${tag}:`,
          ...(hashTag && { hashTag }),
        }),
        limits: NAMES.map((each) => ({ name: each, policy: closed })),
      });
    const [one, other] = [member(), member()];
    const keys = Object.fromEntries(NAMES.map((each) => [each, 'ada']));
    await Promise.all([one.consume(keys), one.consume(keys), other.consume(keys)]);
    await other.close();
    const list = await one.mostRefused(undefined, { fleet: true });
    const counts = (entries: typeof list): unknown =>
      Object.fromEntries(entries.map(({ limit, count }) => [limit, count]));
    // Without a hash tag limits are asked in the order of their slots, until one refuses.
    expect(counts(list)).toMatchObject({ api: 3 });
    // Whoever does not know the limits finds their names.
    expect(counts(await one.store.mostRefused(undefined, 20, 24))).toEqual(counts(list));
    const held = await Promise.all(
      cluster.masters.map(({ client }) => client.keys(`${name}${tag}:{}1#*`)),
    );
    if (hashTag !== undefined) {
      expect(counts(list)).toEqual(Object.fromEntries(NAMES.map((each) => [each, 3])));
      expect(held.filter((each) => each.length > 0).length).toBeGreaterThan(1);
    }
    await one.close();
  });
});
