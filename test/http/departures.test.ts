import { leakyBucket, memoryStore, type Store } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisServer } from '../redis/server.ts';
import type { AppGate } from './app.ts';
import { ask, start, tally, together } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS, type Framework } from './servers.ts';
import { places } from './stores.ts';

const BURST = 20;
const GAP_MS = 20;
/** How late most may leave: a timer, and what else a busy machine does in between. */
const SLACK_MS = 60;
const SLOW_MACHINE_MS = 20_000;

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

/** Servers in real time, all with one queue, that note when a request leaves it. */
async function queueing(serves: readonly Framework['serve'][], stores: () => Store) {
  const served: number[] = [];
  const queue = {
    name: 'queue',
    policy: leakyBucket({ capacity: BURST, rate: 1, per: GAP_MS }),
  };
  const servers = await Promise.all(
    serves.map((serve) =>
      serve({
        gates: [{ store: stores(), limits: [queue] }],
        routes: [{ path: '/', handler: () => void served.push(performance.now()) }],
      }),
    ),
  );
  return { servers, served };
}

/** Holds departures to their times. `beganMs` is before the first of them. */
function expectEven(served: readonly number[], beganMs: number): void {
  // Whoever leaves may do so late, but nobody early: the n-th not before n gaps have passed.
  const late = served.map((atMs, index) => atMs - beganMs - index * GAP_MS);
  expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
  // Late by about the same, which makes the gaps even. A machine that stalls now and then delays a few of them.
  const least = Math.min(...late);
  const punctual = late.filter((ms) => ms - least <= SLACK_MS);
  expect(punctual.length).toBeGreaterThanOrEqual(0.75 * served.length);
}

// What is measured takes its time, and both versions of Express are held up by the same code.
const ADAPTERS = FRAMEWORKS.filter(({ name }) => name !== 'Express 4');

describe.each(ADAPTERS)('$name', ({ serve }) => {
  it.each<[where: string, () => () => Store]>([
    ['memory', () => () => memoryStore()],
    [
      'Redis',
      () => {
        const prefix = `${prefixes++}:`;
        return () => shared(prefix);
      },
    ],
  ])('lets a burst leave evenly, from %s', async (_, stores) => {
    const { servers, served } = await queueing([serve], stores());
    const url = servers[0]?.url ?? '';
    const beganMs = performance.now();
    // More than there is room for: those are told at once, and hold up nobody.
    const replies = await Promise.all(together(url, BURST + 10));
    expect(tally(replies.map(({ status }) => status))).toMatchObject({ 200: served.length });
    expect(served.length).toBeGreaterThanOrEqual(BURST);
    expectEven(served, beganMs);
  });
});

it('lets a burst leave evenly that is spread over servers of one Redis', async () => {
  const prefix = `${prefixes++}:`;
  const serves = ADAPTERS.map(({ serve }) => serve);
  const { servers, served } = await queueing(serves, () => shared(prefix));
  const beganMs = performance.now();
  const replies = Array.from({ length: BURST }, (_, index) =>
    ask(servers[index % servers.length]?.url ?? ''),
  );
  expect(tally((await Promise.all(replies)).map(({ status }) => status))).toEqual({ 200: BURST });
  served.sort((a, b) => a - b);
  expectEven(served, beganMs);
});

describe.each(places())('in $where', ({ storeBy }) => {
  describe.each(FRAMEWORKS)('$name', ({ serve }) => {
    /** A queue whose clock stands still, while requests are held in real time. */
    async function standing(per: number | string, gate: AppGate = {}) {
      const policy = leakyBucket({ capacity: 5, rate: 1, per });
      const served: unknown[] = [];
      const server = await serve({
        gates: [{ store: storeBy(new Clock()), limits: [{ name: 'queue', policy }], ...gate }],
        routes: [
          {
            path: '/',
            handler: ({ request }) => void served.push(request.headers['x-request']),
          },
        ],
      });
      const left = async (): Promise<number> =>
        (await server.gate.limiter.peek({ queue: '127.0.0.1' })).remaining;
      /** Sends a request that is held, and goes on when it is. */
      const hold = async (name: string) => {
        const before = await left();
        const request = start(server.url, { 'x-request': name });
        await expect.poll(left, { interval: 5 }).toBe(before - 1);
        return request;
      };
      return { ...server, served, left, hold };
    }

    it('gives back the place of a client that leaves, if nobody stands behind it', async () => {
      const { url, left, hold } = await standing('1h', { maxWaitMs: 86_400_000 });
      expect((await ask(url)).status).toBe(200);
      const [first, last] = [await hold('first'), await hold('last')];
      first.destroy();
      last.destroy();
      // Whichever of the two is heard of first: the place of the last is free, and that of the first only after it.
      await expect.poll(left).toBeGreaterThanOrEqual(3);
      const middle = await hold('middle');
      const behind = await hold('behind');
      const before = await left();
      const closed = new Promise((resolve) => middle.on('close', resolve));
      middle.destroy();
      await closed;
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(await left()).toBe(before);
      behind.destroy();
      await expect.poll(left).toBe(before + 1);
    });

    it('holds no more than it may, and charges those whom it refuses for that nothing', async () => {
      const { url, left, hold } = await standing('1h', { maxWaitMs: 86_400_000, maxWaiting: 2 });
      expect((await ask(url)).status).toBe(200);
      const held = [await hold('one'), await hold('two')];
      for (let times = 0; times < 3; times++) expect((await ask(url)).status).toBe(503);
      await expect.poll(left).toBe(2);
      for (const request of held) request.destroy();
      await expect.poll(left).toBeGreaterThan(2);
      expect((await hold('three')).destroyed).toBe(false);
    });

    it('lets those whom it holds leave at their time when it is closed, and refuses others', async () => {
      const { url, served, left, gate } = await standing(100);
      const replies = together(url, 4);
      await expect.poll(left, { interval: 2 }).toBe(1);
      await gate.close();
      expect((await ask(url)).status).toBe(503);
      const statuses = (await Promise.all(replies)).map(({ status }) => status);
      expect(tally(statuses)).toEqual({ 200: 4 });
      expect(served).toHaveLength(4);
    });
  });
});
