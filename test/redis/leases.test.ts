import {
  concurrency,
  createLimiter,
  fixedWindow,
  type LimitOptions,
  type Limiter,
  type Policy,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { RedisStore, RedisStoreOptions } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { storeAt } from './limiters.ts';
import { RedisServer } from './server.ts';

const DAY = '1d';
/** Nothing comes back while a test runs, and of the bucket one unit is kept back. */
const POLICIES: readonly Policy[] = [
  fixedWindow({ limit: 100, window: '365d' }),
  slidingWindow({ limit: 100, window: '365d' }),
  tokenBucket({ capacity: 101, rate: 1, per: '100d' }),
];
const [fixed] = POLICIES as readonly [Policy];

let server: RedisServer;
let admin: Redis;
let prefixes = 0;

beforeAll(async () => {
  server = await RedisServer.start();
  admin = new Redis(server.port, '127.0.0.1');
});

afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

/** A clock that a test sets, in ms; Redis goes by it, too. */
class Clock {
  ms = 1_000_000_000_000;
  readonly read = (): number => this.ms * 1_000;
}

interface Site {
  readonly limiter: Limiter<RedisStore>;
  readonly clock: Clock;
  /** Another process, that shares the first's keys. */
  readonly other: () => Limiter<RedisStore>;
}

function open(limits: readonly LimitOptions[], options: RedisStoreOptions = {}): Site {
  const clock = new Clock();
  const prefix = `p${prefixes++}:`;
  const other = (): Limiter<RedisStore> => {
    const store = storeAt(server.port, {
      prefix,
      deadlineMs: 20_000,
      clock: clock.read,
      ...options,
    });
    const limiter = createLimiter({ store, limits });
    onTestFinished(() => limiter.close());
    return limiter;
  };
  return { limiter: other(), clock, other };
}

/** How many script calls something takes. */
async function callsOf(run: () => Promise<unknown>): Promise<number> {
  const count = async (): Promise<number> => {
    const stats = await admin.info('commandstats');
    const calls = stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g);
    return [...calls].reduce((sum, [, number]) => sum + Number(number), 0);
  };
  const before = await count();
  await run();
  return (await count()) - before;
}

function many(count: number): undefined[] {
  return Array.from({ length: count });
}

describe.each(POLICIES)('leases of a $algorithm', (policy) => {
  const limits = [{ name: 'a', policy, lease: {} }];

  test('let all callers that find none share one call', async () => {
    const { limiter } = open(limits);
    await limiter.peek({ a: 'k' });
    const decisions: boolean[] = [];
    const calls = await callsOf(async () => {
      const all = await Promise.all(many(1_000).map(() => limiter.consume({ a: 'k' })));
      decisions.push(...all.map(({ allowed }) => allowed));
    });
    expect(calls).toBe(1);
    // In order: the first hundred, and nobody else.
    expect(decisions.indexOf(false)).toBe(100);
    expect(decisions.lastIndexOf(true)).toBe(99);
  });

  test('decide without asking while they last, and refuse without asking what Redis would', async () => {
    const { limiter, clock } = open(limits);
    await Promise.all(many(20).map(() => limiter.consume({ a: 'k' })));
    clock.ms += 10;
    const before = await limiter.consume({ a: 'k' });
    expect(before).toMatchObject({ allowed: true, source: 'lease', limit: policyQuota(policy) });
    const calls = await callsOf(async () => {
      for (let i = 0; i < 3; i++) expect((await limiter.consume({ a: 'k' })).allowed).toBe(true);
    });
    expect(calls).toBeLessThanOrEqual(1);
    await Promise.all(many(200).map(() => limiter.consume({ a: 'k' })));
    const refused = await callsOf(async () => {
      const answers = await Promise.all(many(50).map(() => limiter.consume({ a: 'k' })));
      expect(answers.map(({ allowed, source }) => [allowed, source])).toEqual(
        many(50).map(() => [false, 'lease']),
      );
      expect(answers[0]?.retryAfterMs).toBeGreaterThan(1_000);
    });
    expect(refused).toBe(0);
  });

  test('of two processes admit together what the limit does', async () => {
    const { limiter, other, clock } = open(limits);
    const both = [limiter, other()];
    let admitted = 0;
    for (let round = 0; round < 60; round++) {
      clock.ms += 5;
      const answers = await Promise.all(
        both.flatMap((each) => many(1 + (round % 4)).map(() => each.consume({ a: 'k' }))),
      );
      admitted += answers.filter(({ allowed }) => allowed).length;
    }
    expect(admitted).toBeLessThanOrEqual(100);
    // What ran out unspent is given back with the next call.
    expect(admitted).toBeGreaterThan(90);
  });

  test('are given back when a limiter closes', async () => {
    const { limiter, other, clock } = open(limits);
    for (let i = 0; i < 5; i++) {
      clock.ms += 10;
      await Promise.all(many(3).map(() => limiter.consume({ a: 'k' })));
    }
    const witness = other();
    expect((await witness.peek({ a: 'k' })).remaining).toBeLessThan(85);
    await limiter.close();
    expect((await witness.peek({ a: 'k' })).remaining).toBe(85);
  });

  test('take a unit back that was not needed, in Redis where they are over', async () => {
    const { limiter, clock } = open(limits);
    const first = await limiter.consume({ a: 'k' }, { cost: 10 });
    await first.settle(4);
    expect((await limiter.peek({ a: 'k' })).remaining).toBe(96);
    const second = await limiter.consume({ a: 'k' }, { cost: 6 });
    expect(second.source).toBe('lease');
    clock.ms += 1_000;
    await second.settle(4);
    await expect.poll(async () => (await limiter.peek({ a: 'k' })).remaining).toBe(92);
    const third = await limiter.consume({ a: 'k' }, { cost: 1 });
    await third.settle(3);
    expect((await limiter.peek({ a: 'k' })).remaining).toBe(89);
  });

  test('know what the other calls do', async () => {
    const { limiter } = open(limits);
    await limiter.charge({ a: 'k' }, 200);
    expect((await limiter.consume({ a: 'k' })).allowed).toBe(false);
    expect((await limiter.consume({ a: 'k' })).source).toBe('lease');
    await limiter.refund({ a: 'k' }, 150);
    expect((await limiter.consume({ a: 'k' })).allowed).toBe(true);
    await limiter.ban({ a: 'k' }, 60_000);
    const banned = await limiter.consume({ a: 'k' });
    expect(banned).toMatchObject({ allowed: false, reason: 'banned' });
    expect((await limiter.consume({ a: 'k' })).reason).toBe('banned');
    await limiter.unban({ a: 'k' });
    expect((await limiter.consume({ a: 'k' })).allowed).toBe(true);
    await limiter.reset({ a: 'k' });
    expect((await limiter.peek({ a: 'k' })).remaining).toBe(100);
    expect((await limiter.wait({ a: 'k' }, { cost: 100 })).allowed).toBe(true);
  });
});

function policyQuota(policy: Policy): number {
  return 'capacity' in policy ? policy.capacity : policy.limit;
}

test('tell of what they are granted, denied and give back', async () => {
  const { limiter, clock } = open([{ name: 'told', policy: fixed, lease: {} }]);
  const heard: { event: string; units: number }[] = [];
  const listener = (message: unknown): void => {
    const { name, event, units } = message as { name: string; event: string; units: number };
    if (name === 'told') heard.push({ event, units });
  };
  subscribe('tollgate:lease', listener);
  onTestFinished(() => void unsubscribe('tollgate:lease', listener));
  await limiter.consume({ told: 'k' }, { cost: 90 });
  // What Redis said is too old to go by then.
  clock.ms += 200;
  await limiter.consume({ told: 'k' }, { cost: 20 });
  await limiter.close();
  expect(heard.map(({ event }) => event)).toEqual(['granted', 'denied']);
  expect(heard[0]?.units).toBe(90);
  expect(heard[1]?.units).toBeGreaterThanOrEqual(20);
});

test('a dear cost is admitted although a lease holds less', async () => {
  const { limiter, clock } = open([{ name: 'a', policy: fixed, lease: { share: 0.02 } }]);
  for (let i = 0; i < 10; i++) {
    clock.ms += 10;
    expect((await limiter.consume({ a: 'k' }, { cost: i })).allowed).toBe(true);
  }
  expect((await limiter.consume({ a: 'k' }, { cost: 60 })).allowed).toBe(false);
  expect((await limiter.consume({ a: 'k' }, { cost: 101 })).retryAfterMs).toBe(Infinity);
});

test('a new policy holds at once, and what was owed stays owed', async () => {
  const { limiter, clock } = open([{ name: 'a', policy: fixed, lease: {} }]);
  for (let i = 0; i < 5; i++) {
    clock.ms += 10;
    await Promise.all(many(4).map(() => limiter.consume({ a: 'k' })));
  }
  limiter.update('a', fixedWindow({ limit: 10, window: '365d' }));
  expect((await limiter.consume({ a: 'k' })).allowed).toBe(false);
  limiter.update('a', fixedWindow({ limit: 1_000, window: '365d' }));
  expect((await limiter.consume({ a: 'k' })).allowed).toBe(true);
});

describe('in layers', () => {
  const limits = [
    { name: 'a', policy: fixed, lease: {} },
    { name: 'b', policy: fixedWindow({ limit: 10, window: '365d' }) },
    { name: 'c', policy: fixedWindow({ limit: 1_000, window: '365d' }), lease: {} },
  ];

  test('all are charged or none', async () => {
    const { limiter, clock } = open(limits);
    for (let i = 0; i < 30; i++) {
      clock.ms += 3;
      const { allowed, verdicts } = await limiter.consume({ a: 'k', b: 'k', c: 'k' });
      expect(allowed).toBe(i < 10);
      expect(verdicts.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    }
  });

  test('what a refusal elsewhere leaves is the whole budget', async () => {
    const { limiter, other, clock } = open(limits);
    for (let i = 0; i < 40; i++) {
      clock.ms += 3;
      await limiter.consume({ a: 'k', b: 'k', c: 'k' });
    }
    await limiter.close();
    const remaining = await other().peek({ a: 'k', b: 'k', c: 'k' });
    expect(remaining.verdicts.map((verdict) => verdict.remaining)).toEqual([90, 0, 990]);
  });

  test('a lease that refuses charges nothing elsewhere', async () => {
    const { limiter } = open(limits);
    await limiter.consume({ a: 'k' }, { cost: 100 });
    await limiter.consume({ a: 'k' });
    const { allowed, verdicts } = await limiter.consume({ a: 'k', b: 'k' });
    expect(allowed).toBe(false);
    expect(verdicts.map((verdict) => [verdict.allowed, verdict.remaining])).toEqual([
      [false, 0],
      [true, 10],
    ]);
  });

  test('leases alone need no call', async () => {
    const { limiter, clock } = open(limits);
    for (let i = 0; i < 5; i++) {
      clock.ms += 10;
      await Promise.all(many(5).map(() => limiter.consume({ a: 'k', c: 'k' })));
      await limiter.peek({ a: 'k', c: 'k' });
    }
    const calls = await callsOf(async () => {
      for (let i = 0; i < 4; i++) {
        const { allowed, source } = await limiter.consume({ a: 'k', c: 'k' });
        expect([allowed, source]).toEqual([true, 'lease']);
      }
    });
    expect(calls).toBeLessThanOrEqual(2);
  });

  test('a shadow limit is counted, and refuses nobody', async () => {
    const { limiter, other, clock } = open([
      { name: 'a', policy: fixedWindow({ limit: 5, window: DAY }), lease: {}, mode: 'shadow' },
      { name: 'b', policy: fixed },
    ]);
    const seen: boolean[] = [];
    for (let i = 0; i < 9; i++) {
      clock.ms += 3;
      const { allowed, verdicts } = await limiter.consume({ a: 'k', b: 'k' });
      expect(allowed).toBe(true);
      seen.push(verdicts[0]?.allowed === true);
    }
    expect(seen).toEqual([true, true, true, true, true, false, false, false, false]);
    expect((await other().peek({ b: 'k' })).remaining).toBe(91);
  });

  test('slots are taken and freed beside', async () => {
    const { limiter } = open([
      { name: 'a', policy: fixed, lease: {} },
      { name: 's', policy: concurrency({ limit: 1 }) },
    ]);
    const held = await limiter.consume({ a: 'k', s: 'k' });
    expect(held.allowed).toBe(true);
    expect((await limiter.consume({ a: 'k', s: 'k' })).allowed).toBe(false);
    await held.release();
    expect((await limiter.consume({ a: 'k', s: 'k' })).allowed).toBe(true);
    await limiter.close();
  });
});

describe('with an overdraft', () => {
  const limits = [{ name: 'a', policy: fixed, lease: { overdraft: 3 } }];

  test('nobody waits, and what was admitted ahead is paid first', async () => {
    const { limiter, other, clock } = open(limits);
    const answers = many(5).map(() => limiter.consume({ a: 'k' }));
    const allowed = (await Promise.all(answers)).map((decision) => decision.allowed);
    expect(allowed).toEqual([true, true, true, false, false]);
    const witness = other();
    await expect.poll(async () => (await witness.peek({ a: 'k' })).remaining).toBe(97);
    await witness.consume({ a: 'k' }, { cost: 97 });
    clock.ms += 1_000;
    let ahead = 0;
    for (let i = 0; i < 20; i++) {
      clock.ms += 1_000;
      if ((await limiter.consume({ a: 'k' })).allowed) ahead++;
      await limiter.peek({ a: 'k' });
    }
    expect(ahead).toBe(3);
  });

  test('what is owed is not had again after a ban', async () => {
    const { limiter, other, clock } = open(limits);
    const witness = other();
    await witness.consume({ a: 'k' }, { cost: 100 });
    let ahead = 0;
    for (let bans = 0; bans < 3; bans++) {
      for (let i = 0; i < 5; i++) if ((await limiter.consume({ a: 'k' })).allowed) ahead++;
      await limiter.ban({ a: 'k' }, 1);
      clock.ms += 10;
    }
    expect(ahead).toBeGreaterThanOrEqual(3);
    await limiter.close();
    // Charged once each, whether by the lease or at its end.
    await witness.refund({ a: 'k' }, 100 + ahead - 1);
    expect((await witness.peek({ a: 'k' })).remaining).toBe(99);
  });

  test('what is owed at the end is charged', async () => {
    const { limiter, other } = open(limits);
    await Promise.all(many(3).map(() => limiter.consume({ a: 'k' })));
    await limiter.close();
    expect((await other().peek({ a: 'k' })).remaining).toBe(97);
  });
});
