import { everyone, fixedWindow, type Store } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisServer } from '../redis/server.ts';
import { ask, tally, together } from './clients.ts';
import { FRAMEWORKS } from './servers.ts';

const SLOW_MACHINE_MS = 20_000;
/** So that none ends meanwhile. */
const LONG = '400d';

let redis: RedisServer;
let client: Redis;
let prefixes = 0;

beforeAll(async () => {
  redis = await RedisServer.start();
  client = new Redis(redis.port, '127.0.0.1');
});

afterAll(async () => {
  client.disconnect();
  await redis.stop();
});

const shared = (prefix: string): Store =>
  redisStore(client, { prefix, deadlineMs: SLOW_MACHINE_MS });

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  const leased = {
    name: 'leased',
    by: everyone(),
    policy: fixedWindow({ limit: 30, window: LONG }),
    lease: { share: 0.5 },
  };

  it('lets two servers serve together what the limit allows, and no more', async () => {
    const prefix = `http${prefixes++}:`;
    const gates = (): { store: Store; limits: (typeof leased)[] }[] => [
      { store: shared(prefix), limits: [leased] },
    ];
    const servers = [await serve({ gates: gates() }), await serve({ gates: gates() })];
    const replies = await Promise.all(servers.flatMap(({ url }) => together(url, 40)));
    const statuses = tally(replies.map(({ status }) => status));
    expect(statuses[200]).toBeLessThanOrEqual(30);
    expect(statuses[200]).toBeGreaterThan(20);
    const refused = replies.find(({ status }) => status === 429);
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(1);
    expect(refused?.headers.get('ratelimit-policy')).toMatch(/^"leased";q=30;w=/);
  });

  it('charges limits with and without leases together, or none of them', async () => {
    const store = shared(`http${prefixes++}:`);
    const exact = {
      name: 'exact',
      by: everyone(),
      policy: fixedWindow({ limit: 10, window: LONG }),
    };
    const { url } = await serve({ gates: [{ store, limits: [leased, exact] }] });
    const statuses = await Promise.all(
      together(url, 25).map(async (reply) => (await reply).status),
    );
    expect(tally(statuses)).toEqual({ 200: 10, 429: 15 });
    const { headers } = await ask(url);
    const [, left] =
      /^"leased";r=(\d+);t=\d+, "exact";r=0;t=\d+$/.exec(headers.get('ratelimit') ?? '') ?? [];
    // A bound: what this process holds may have run out, and is given back with its next call.
    expect(Number(left)).toBeGreaterThanOrEqual(5);
    expect(Number(left)).toBeLessThanOrEqual(20);
  });
});
