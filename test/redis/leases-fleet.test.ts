import {
  fixedWindow,
  type LeaseOptions,
  type LimitOptions,
  type Policy,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { build } from '../readme/built.ts';
import { Fleet, type MemberAnswer } from './fleet.ts';
import { RedisServer } from './server.ts';

const MEMBERS = 8;
const BUDGET = 400;
/** So long that none ends meanwhile. */
const LONG = '400d';
const CALLS = Array.from({ length: 20 }, () => 1);

let server: RedisServer;
let fleet: Fleet;
let jobs = 0;

beforeAll(async () => {
  build();
  server = await RedisServer.start();
  fleet = Fleet.start(MEMBERS, server.port);
}, 180_000);

afterAll(async () => {
  await fleet.stop();
  await server.stop();
});

/** What all members are told who hammer one key. */
async function hammer(
  policy: Policy,
  lease: LeaseOptions,
  rounds: number,
  others: readonly LimitOptions[] = [],
): Promise<MemberAnswer[]> {
  const limits = [{ name: 'a', policy, lease, whenStoreFails: 'deny' as const }, ...others];
  const keys = Object.fromEntries(limits.map(({ name }) => [name, 'k']));
  const prefix = `job${jobs++}:`;
  const told = await fleet.run({ prefix, limits, keysOf: () => keys, rounds, costs: CALLS });
  await fleet.close();
  return told.flat();
}

function admittedAt(answers: readonly MemberAnswer[]): number[] {
  return answers
    .filter(({ allowed }) => allowed)
    .map(({ atMs }) => atMs)
    .toSorted((a, b) => a - b);
}

test.each([
  fixedWindow({ limit: BUDGET, window: LONG }),
  slidingWindow({ limit: BUDGET, window: LONG }),
  // Of which leases keep one unit back.
  tokenBucket({ capacity: BUDGET + 1, rate: 1, per: '100d' }),
])(
  'eight processes never exceed the budget of a $algorithm, and use nearly all of it',
  async (policy) => {
    const answers = await hammer(policy, {}, 10);
    const admitted = admittedAt(answers).length;
    expect(admitted).toBeLessThanOrEqual(BUDGET);
    // What they hold still when they close goes back unspent.
    expect(admitted).toBeGreaterThan(0.8 * BUDGET);
    const local = answers.filter(({ verdicts }) => verdicts[0]?.source === 'lease');
    expect(local.length).toBeGreaterThan(answers.length / 2);
  },
);

test('no window admits more than its limit, however many end meanwhile', async () => {
  const [limit, window] = [60, 40];
  const answers = await hammer(fixedWindow({ limit, window }), {}, 60);
  const counts = new Map<number, number>();
  for (const at of admittedAt(answers)) {
    const index = Math.floor(at / window);
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  expect(counts.size).toBeGreaterThan(2);
  expect(Math.max(...counts.values())).toBeLessThanOrEqual(limit);
});

test('no span admits more than a bucket holds and gains in it', async () => {
  const [capacity, rate] = [300, 2];
  const policy = tokenBucket({ capacity, rate, per: 1 });
  const instants = admittedAt(await hammer(policy, { syncMs: 50 }, 60));
  let most = 0;
  let least = Infinity;
  for (const [count, at] of instants.entries()) {
    least = Math.min(least, count - rate * at);
    most = Math.max(most, count + 1 - rate * at - least);
  }
  expect(instants.length).toBeGreaterThan(capacity);
  // The last digits of so many milliseconds are not exact.
  expect(most).toBeLessThanOrEqual(capacity + 0.01);
});

test('with an overdraft each process admits no more than that over', async () => {
  const overdraft = 5;
  // The other limit is asked for in Redis, so that there is time for answers to come.
  const others = [{ name: 'b', policy: fixedWindow({ limit: 100_000, window: LONG }) }];
  const policy = fixedWindow({ limit: BUDGET, window: LONG });
  const admitted = admittedAt(await hammer(policy, { overdraft }, 15, others)).length;
  expect(admitted).toBeLessThanOrEqual(BUDGET + MEMBERS * overdraft);
  expect(admitted).toBeGreaterThan(0.8 * BUDGET);
});

test('a Redis that dies midway adds nothing', async () => {
  const mortal = await RedisServer.start();
  const members = Fleet.start(MEMBERS, mortal.port, 'ignore');
  const witness = new Redis(mortal.port, '127.0.0.1');
  witness.on('error', () => undefined);
  onTestFinished(async () => {
    witness.disconnect();
    // A member ends when its limiter is closed.
    await members.close();
    await members.stop();
    await mortal.stop('SIGKILL');
  });
  const limits = [
    {
      name: 'a',
      policy: fixedWindow({ limit: 20 * BUDGET, window: LONG }),
      lease: {},
      whenStoreFails: 'deny' as const,
    },
  ];
  const job = { prefix: '', limits, keysOf: () => ({ a: 'k' }), rounds: 300, costs: CALLS };
  const told = members.run(job);
  const scriptCalls = async (): Promise<number> => {
    const stats = await witness.info('commandstats');
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };
  // All have connected by then, and are at it.
  await expect.poll(scriptCalls, { timeout: 50_000, interval: 5 }).toBeGreaterThan(3 * MEMBERS);
  await mortal.stop('SIGKILL');
  const answers = (await told).flat();
  const admitted = admittedAt(answers).length;
  expect(admitted).toBeLessThanOrEqual(20 * BUDGET);
  expect(admitted).toBeLessThan(answers.length);
  const sources = new Set(answers.flatMap(({ verdicts }) => verdicts.map(({ source }) => source)));
  expect(sources.has('fallback')).toBe(false);
});
