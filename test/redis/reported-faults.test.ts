import {
  createLimiter,
  fixedWindow,
  type Limiter,
  type LimitOptions,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, test } from 'vitest';
import { Clock } from '../http/clock.ts';
import { RedisServer } from './server.ts';

/** Faults that users of rate limiters reported in public, as small cases. */

const SLOW_MACHINE_MS = 20_000;
const key = { plan: 'k' };

let server: RedisServer;
let client: Redis;
let prefixes = 0;

beforeAll(async () => {
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1');
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

const PLACES = ['memory', 'Redis'] as const;
type Place = (typeof PLACES)[number];

interface World {
  readonly clock: Clock;
  readonly prefix: string;
  /** As a process that starts anew on what is stored. */
  readonly limiter: (...limits: LimitOptions[]) => Limiter;
}

function world(place: Place): World {
  const clock = new Clock();
  const prefix = `reported${prefixes++}:`;
  const limiter = (...limits: LimitOptions[]): Limiter => {
    const made: Limiter = createLimiter({
      store:
        place === 'memory'
          ? clock.store
          : redisStore(client, { clock: clock.now, prefix, deadlineMs: SLOW_MACHINE_MS }),
      limits,
      onStoreError: () => undefined,
    });
    onTestFinished(async () => made.close());
    return made;
  };
  return { clock, prefix, limiter };
}

const plan = (policy: Policy): LimitOptions => ({ name: 'plan', policy });

/** How many of so many requests at one instant are admitted. */
async function admitted(limiter: Limiter, times: number, cost = 1): Promise<number> {
  let count = 0;
  for (let i = 0; i < times; i++) if ((await limiter.consume(key, { cost })).allowed) count++;
  return count;
}

const KINDS: readonly (readonly [name: string, make: (units: number, ms: number) => Policy])[] = [
  [
    'token bucket',
    (units, ms) => tokenBucket({ capacity: units, rate: Math.max(1, units), per: ms }),
  ],
  ['fixed window', (units, ms) => fixedWindow({ limit: units, window: ms })],
  ['sliding window', (units, ms) => slidingWindow({ limit: units, window: ms })],
  ['sliding log', (units, ms) => slidingLog({ limit: units, window: ms })],
];

describe.each(PLACES)('in %s', (place) => {
  describe.each(KINDS)('a %s', (_, make) => {
    it('takes nothing for what it refuses, nor for a cost that nothing could admit', async () => {
      const limiter = world(place).limiter(plan(make(10, 60_000)));
      const never = await limiter.consume(key, { cost: 11 });
      expect([never.allowed, never.retryAfterMs]).toEqual([false, Infinity]);
      await expect(limiter.wait(key, { cost: 11 })).rejects.toMatchObject({
        code: 'TOLLGATE_WAIT',
      });
      const told: [boolean, number][] = [];
      for (const cost of [8, 5, 2, 1]) {
        const { allowed, remaining } = await limiter.consume(key, { cost });
        told.push([allowed, remaining]);
      }
      expect(told).toEqual([
        [true, 2],
        [false, 2],
        [true, 0],
        [false, 0],
      ]);
    });

    it('is not raised by a negative cost', async () => {
      const limiter = world(place).limiter(plan(make(10, 60_000)));
      await limiter.consume(key, { cost: 8 });
      for (const cost of [-5, -0.5]) {
        for (const call of ['consume', 'wait'] as const) {
          expect(() => limiter[call](key, { cost })).toThrow(/whole number of 0 or more/);
        }
        expect(() => limiter.charge(key, cost)).toThrow(/whole number of 0 or more/);
      }
      expect((await limiter.peek(key)).remaining).toBe(2);
    });

    it('is not used up by those who look', async () => {
      const { limiter: open, prefix } = world(place);
      const limiter = open(plan(make(3, 60_000)));
      const stored = async (): Promise<(readonly [string, number])[]> =>
        Promise.all(
          (await client.keys(`${prefix}*`)).map(
            async (name) => [name, await client.pttl(name)] as const,
          ),
        );
      for (let times = 0; times < 100; times++) expect((await limiter.peek(key)).remaining).toBe(3);
      expect(await stored()).toEqual([]);
      await limiter.consume(key);
      const before = await stored();
      expect(await admitted(limiter, 100, 0)).toBe(100);
      expect((await limiter.peek(key)).remaining).toBe(2);
      const after = await stored();
      expect(after.map(([name]) => name)).toEqual(before.map(([name]) => name));
      for (const [index, [, ttl]] of after.entries()) {
        expect(ttl).toBeLessThanOrEqual(before[index]?.[1] ?? 0);
      }
    });

    it('gives back what was used, and mints nothing', async () => {
      const { clock, limiter: open } = world(place);
      const limiter = open(plan(make(2, 60_000)));
      await limiter.refund(key, 1);
      expect(await admitted(limiter, 4)).toBe(2);
      await limiter.refund(key, 1);
      expect(await admitted(limiter, 2)).toBe(1);
      clock.pass(10 * 60_000);
      await limiter.refund(key, 1);
      expect(await admitted(limiter, 4)).toBe(2);
      const other = { plan: 'other' };
      const receipt = await limiter.consume(other);
      await limiter.consume(other);
      for (let times = 0; times < 2; times++) await receipt.settle(0);
      expect((await limiter.peek(other)).remaining).toBe(1);
    });

    it('lets a caller recover that keeps asking', async () => {
      const { clock, limiter: open } = world(place);
      const limiter = open(plan(make(2, 4_000)));
      let count = 0;
      for (let second = 0; second < 60; second++) {
        count += await admitted(limiter, 1);
        clock.pass(1_000);
      }
      expect(count).toBeGreaterThanOrEqual(make(2, 4_000).algorithm === 'sliding-window' ? 14 : 28);
    });

    it('frees who was blocked when a process starts with a higher limit', async () => {
      const { limiter: open } = world(place);
      const before = open(plan(make(10, 3_600_000)));
      expect(await admitted(before, 50)).toBe(10);
      await before.close();
      expect(await admitted(open(plan(make(20, 3_600_000))), 50)).toBe(10);
    });

    it('refuses everybody with a limit of 0, and others have theirs', async () => {
      const limiter = world(place).limiter({ name: 'plan' });
      const on = (units: number) => ({ policies: { plan: make(units, 60_000) } });
      const refused = await limiter.consume(key, on(0));
      expect([refused.allowed, refused.retryAfterMs, refused.remaining]).toEqual([
        false,
        Infinity,
        0,
      ]);
      let count = 0;
      for (let times = 0; times < 9; times++) {
        if ((await limiter.consume({ plan: 'paying' }, on(5))).allowed) count++;
      }
      expect(count).toBe(5);
    });
  });

  it('a lowered limit is never half the old one', async () => {
    const limiter = world(place).limiter(plan(tokenBucket({ capacity: 20, rate: 20, per: '1m' })));
    limiter.update('plan', tokenBucket({ capacity: 10, rate: 10, per: '1m' }));
    expect((await limiter.peek(key)).remaining).toBe(10);
    expect((await limiter.consume(key, { cost: 12 })).retryAfterMs).toBe(Infinity);
    expect((await limiter.consume(key, { cost: 10 })).allowed).toBe(true);
    expect((await limiter.consume(key)).retryAfterMs).toBe(6_000);
  });

  it('another algorithm on old keys starts fresh, and two at once do not meet', async () => {
    const { limiter } = world(place);
    const named = (name: string, policy: Policy): LimitOptions => ({ name, policy });
    for (const [, make] of KINDS) {
      const made = limiter(plan(make(2, 60_000)));
      expect(await admitted(made, 5)).toBe(2);
      await made.close();
    }
    const both = limiter(
      named('plan', fixedWindow({ limit: 3, window: '1h' })),
      named('other', slidingLog({ limit: 2, window: '1h' })),
    );
    expect((await both.consume({ plan: 'new', other: 'new' })).allowed).toBe(true);
  });
});

describe('a key in Redis that somebody made by hand', () => {
  const JUNK: readonly [string, (name: string) => Promise<unknown>][] = [
    ['a text', (name) => client.set(name, 'hello')],
    ['numbers beyond all bounds', (name) => client.set(name, '99999999999999999999:-7:x')],
    ['a list', (name) => client.rpush(name, 'a', 'b')],
    ['a hash', (name) => client.hset(name, 'count', 'many')],
  ];

  test.each(JUNK)('with %s limits still, and is whole again once it is gone', async (_, put) => {
    for (const [, make] of KINDS) {
      const { limiter, prefix, clock } = world('Redis');
      const made = limiter(plan(make(2, 60_000)));
      expect((await made.consume(key)).allowed).toBe(true);
      const [name = ''] = await client.keys(`${prefix}*`);
      await client.del(name);
      await put(name);
      // Healed, or a fault of the store that the failure policy answers: this process limits by itself.
      expect(await admitted(made, 9)).toBeLessThanOrEqual(2);
      await client.del(name);
      clock.pass(120_000);
      await expect
        .poll(async () => (await made.consume(key)).source, { timeout: 5_000 })
        .toBe('store');
    }
  });
});
