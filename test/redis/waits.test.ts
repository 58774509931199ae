import {
  concurrency,
  createLimiter,
  fixedWindow,
  leakyBucket,
  type LimitOptions,
  type Policy,
  tokenBucket,
} from '@tollgate/core';
import { type RedisStore, redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, test } from 'vitest';
import { build } from '../readme/built.ts';
import { Fleet, type Served } from './fleet.ts';
import { RedisServer } from './server.ts';

const MEMBERS = 4;
const COUNT = 10;
const ALL = MEMBERS * COUNT;
const GAP_MS = 25;
const SLACK_MS = 5_000;
const SLOW_MACHINE_MS = 20_000;
const keys = { shared: 'hot' };

let server: RedisServer;
let client: Redis;
let fleet: Fleet;
let jobs = 0;

beforeAll(async () => {
  build();
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1');
  fleet = Fleet.start(MEMBERS, server.port);
}, 180_000);

afterAll(async () => {
  await fleet.stop();
  client.disconnect();
  await server.stop();
});

const limitsOf = (policy: Policy): LimitOptions[] => [{ name: 'shared', policy }];

/** Has ten wait in each of four processes, and sees that all of them are served, in each process in turn. */
async function waits(policy: Policy, holdMs = 0): Promise<{ beganMs: number; served: Served[][] }> {
  const prefix = `waits${jobs++}:`;
  const beganMs = Date.now();
  const limits = limitsOf(policy);
  const served = await fleet.wait({ prefix, limits, keys, count: COUNT, holdMs });
  const inTurn = Array.from({ length: COUNT }, (_, place) => place);
  for (const member of served) expect(member.map(({ place }) => place)).toEqual(inTurn);
  return { beganMs, served };
}

describe('those who wait in four processes', () => {
  afterEach(() => fleet.close());

  test.each([
    ['token bucket', tokenBucket({ capacity: 1, rate: 1, per: GAP_MS })],
    ['leaky bucket', leakyBucket({ capacity: 3, rate: 1, per: GAP_MS })],
  ])('are served at the rate of a %s, and no process before all others', async (_, policy) => {
    const { beganMs, served } = await waits(policy);
    const all = served.flatMap((member, index) => member.map((each) => ({ ...each, index })));
    all.sort((a, b) => a.servedMs - b.servedMs);
    for (const [index, { servedMs }] of all.entries()) {
      // A clock that shows whole milliseconds may be behind by one.
      expect(servedMs - beganMs).toBeGreaterThanOrEqual(index * GAP_MS - 1);
    }
    const tookMs = (all.at(-1)?.servedMs ?? Infinity) - (all[0]?.servedMs ?? 0);
    expect(tookMs).toBeLessThan(ALL * GAP_MS + SLACK_MS);
    // Whoever is first in its process stands in line with the first of the others.
    const half = all.slice(0, ALL / 2);
    for (let member = 0; member < MEMBERS; member++) {
      expect(half.filter(({ index }) => index === member).length).toBeGreaterThanOrEqual(2);
    }
  });

  it('are served by windows, of which none admits more than it may', async () => {
    const [limit, window] = [8, 150];
    const { served } = await waits(fixedWindow({ limit, window }));
    const byWindow = new Map<number, number>();
    for (const { atMs } of served.flat()) {
      const start = Math.floor(atMs / window);
      byWindow.set(start, (byWindow.get(start) ?? 0) + 1);
    }
    expect(Math.max(...byWindow.values())).toBeLessThanOrEqual(limit);
    expect(served.flat()).toHaveLength(ALL);
  });

  it('get the slots that others release, long before these would time out', async () => {
    const limit = 3;
    const { served } = await waits(concurrency({ limit, slotTimeout: '1h' }), 10);
    const all = served.flat();
    // Counted by the store's clock when taken, and by a member's just before it is released.
    for (const { atMs } of all) {
      const holding = all.filter((other) => other.atMs <= atMs && other.doneMs > atMs);
      expect(holding.length).toBeLessThanOrEqual(limit);
    }
    const times = all.map(({ servedMs }) => servedMs);
    expect(Math.max(...times) - Math.min(...times)).toBeLessThan(SLACK_MS);
  });
});

describe('a hundred who wait in one process', () => {
  function limiterOf(policy: Policy, prefix = `waits${jobs++}:`) {
    const store: RedisStore = redisStore(client, { prefix, deadlineMs: SLOW_MACHINE_MS });
    const limiter = createLimiter({ store, limits: limitsOf(policy) });
    onTestFinished(() => limiter.close());
    return limiter;
  }

  it('ask the store no more than three times each, however long they wait', async () => {
    const limiter = limiterOf(tokenBucket({ capacity: 1, rate: 1, per: 4 }));
    let asked = 0;
    const decide = limiter.store.decide.bind(limiter.store);
    limiter.store.decide = (charges, mode) => {
      asked++;
      return decide(charges, mode);
    };
    await Promise.all(Array.from({ length: 100 }, () => limiter.wait(keys)));
    // Whether it may be in time, whether it may pass, and a place in the line.
    expect(asked).toBeLessThanOrEqual(300);
  });

  it('give a place that was booked ahead back when they leave', async () => {
    const prefix = `waits${jobs++}:`;
    const policy = tokenBucket({ capacity: 1, rate: 1, per: '1h' });
    const limiter = limiterOf(policy, prefix);
    const other = limiterOf(policy, prefix);
    expect((await limiter.consume(keys)).allowed).toBe(true);
    const before = (await limiter.peek(keys)).retryAfterMs;
    const abort = new AbortController();
    const wait = limiter.wait(keys, { signal: abort.signal });
    wait.catch(() => undefined);
    // Whoever comes later is told to wait for two.
    await expect
      .poll(async () => (await other.peek(keys)).retryAfterMs)
      .toBeGreaterThan(before + 1_800_000);
    abort.abort();
    await expect(wait).rejects.toThrow();
    await expect
      .poll(async () => (await other.peek(keys)).retryAfterMs)
      .toBeLessThanOrEqual(before);
  });

  it('are served as soon as a place that was booked ahead is paid', async () => {
    const limiter = limiterOf(tokenBucket({ capacity: 1, rate: 1, per: '1h' }));
    const dear = await limiter.consume(keys);
    const wait = limiter.wait(keys);
    await expect
      .poll(async () => (await limiter.peek(keys)).retryAfterMs)
      .toBeGreaterThan(5_400_000);
    await dear.settle(0);
    expect((await wait).allowed).toBe(true);
  });

  it('are refused at once where the place would come too late, and leave nothing behind', async () => {
    const limiter = limiterOf(tokenBucket({ capacity: 1, rate: 1, per: '1h' }));
    expect((await limiter.consume(keys)).allowed).toBe(true);
    const before = (await limiter.peek(keys)).retryAfterMs;
    await expect(limiter.wait(keys, { maxWaitMs: 60_000 })).rejects.toMatchObject({
      code: 'TOLLGATE_WAIT',
    });
    expect((await limiter.peek(keys)).retryAfterMs).toBeLessThanOrEqual(before);
  });
});
