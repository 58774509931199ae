import {
  concurrency,
  createLimiter,
  fixedWindow,
  leakyBucket,
  type Limiter,
  type LimitOptions,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
  type Verdict,
} from '@tollgate/core';
import { type RedisStore, redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { build } from '../readme/built.ts';
import { Fleet, type Job, type MemberAnswer } from './fleet.ts';
import { Replay } from './replay.ts';
import { RedisServer } from './server.ts';

const MEMBERS = 8;
const BUDGET = 200;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const SLOW_MACHINE_MS = 20_000;

/** A window that does not end within the hour. */
const WINDOW_MS =
  ([400, 399].find((days) => Date.now() % (days * DAY_MS) < days * DAY_MS - HOUR_MS) ?? 400) *
  DAY_MS;

/** Of a bucket of which nothing drains meanwhile. */
const STILL = { rate: 1, per: '100d' } as const;

type Maker = (budget: number) => Policy;

// So many units, and no more as long as the tests take.
const bucket: Maker = (budget) => tokenBucket({ capacity: budget, ...STILL });
const leaky: Maker = (budget) => leakyBucket({ capacity: budget, ...STILL });
const fixed: Maker = (budget) => fixedWindow({ limit: budget, window: WINDOW_MS });
const sliding: Maker = (budget) => slidingWindow({ limit: budget, window: WINDOW_MS });
const log: Maker = (budget) => slidingLog({ limit: budget, window: '1h' });
const slots: Maker = (budget) => concurrency({ limit: budget, slotTimeout: '1h' });

const LASTING: readonly (readonly [Policy['algorithm'], Maker])[] = [
  ['token-bucket', bucket],
  ['leaky-bucket', leaky],
  ['fixed-window', fixed],
  ['sliding-window', sliding],
  ['sliding-log', log],
  ['concurrency', slots],
];

/** Policies that give units back all the time. */
const FLOWING: readonly (readonly [string, Policy])[] = [
  ['token-bucket', tokenBucket({ capacity: 20, rate: 777, per: '1s' })],
  ['leaky-bucket', leakyBucket({ capacity: 20, rate: 777, per: '1s' })],
  ['fixed-window', fixedWindow({ limit: 9, window: 20 })],
  ['sliding-window', slidingWindow({ limit: 9, window: 20 })],
  ['sliding-log', slidingLog({ limit: 9, window: 20 })],
];

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

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

const unitsOf = (answers: readonly MemberAnswer[]): number =>
  sum(answers.map(({ verdicts }) => verdicts[0]?.cost ?? 0));

const admittedOf = (answers: readonly MemberAnswer[]): MemberAnswer[] =>
  answers.filter(({ allowed }) => allowed);

/** Has the fleet do a job of its own. Returns what each member was told, which a replay explains. */
async function hammer(
  job: Omit<Job, 'prefix'>,
  prefix = `job${jobs++}:`,
): Promise<MemberAnswer[][]> {
  const answers = await fleet.run({ ...job, prefix });
  for (const member of answers) expect(member).toHaveLength(job.rounds * job.costs.length);
  new Replay(job.limits).explain(answers);
  return answers;
}

/** Another process's limiter, which sees what is left. */
function onlooker(prefix: string, limits: readonly LimitOptions[]): Limiter<RedisStore> {
  const store = redisStore(client, { prefix, deadlineMs: SLOW_MACHINE_MS });
  const limiter = createLimiter({ store, limits });
  onTestFinished(() => limiter.close());
  return limiter;
}

const hot = (): { shared: string } => ({ shared: 'hot' });

afterEach(() => fleet.close());

describe('eight processes that hammer one key', () => {
  test.each(LASTING)('spend a budget exactly, and no answer is off: %s', async (name, make) => {
    const limits = [{ name: 'shared', policy: make(BUDGET) }];
    // More than the budget in all, less than that for each. Dear ones go while there is room, cheap ones fill the rest.
    const costs = [1, 3, 2, 1, 1, 4, 1, 1];
    const answers = await hammer({ limits, keysOf: hot, rounds: 10, costs }, name);
    expect(unitsOf(admittedOf(answers.flat()))).toBe(BUDGET);
    expect((await onlooker(name, limits).peek(hot())).remaining).toBe(0);
  });

  test.each(FLOWING)('are told no more than is true while time passes: %s', async (_, policy) => {
    const limits = [{ name: 'shared', policy }];
    const answers = await hammer({ limits, keysOf: hot, rounds: 20, costs: [1, 2, 1, 3] });
    expect(admittedOf(answers.flat())).not.toHaveLength(0);
  });

  test('are found out if one answer is off', async () => {
    const limits = [{ name: 'shared', policy: bucket(20) }];
    const answers = await hammer({ limits, keysOf: hot, rounds: 2, costs: [1, 2, 1] });
    // One that was admitted, since a refusal told twice changes nothing.
    const member = answers.findIndex((own) =>
      own.some(({ verdicts }) => verdicts.some(({ allowed }) => allowed)),
    );
    const off = (change: (verdict: Verdict) => Partial<Verdict>): MemberAnswer[][] =>
      answers.with(
        member,
        (answers[member] ?? []).map((answer) => ({
          ...answer,
          verdicts: answer.verdicts.map((verdict) => ({ ...verdict, ...change(verdict) })),
        })),
      );
    for (const change of [
      ({ remaining }) => ({ remaining: remaining + 1 }),
      ({ resetAfterMs }) => ({ resetAfterMs: resetAfterMs + 0.001 }),
      ({ nextAfterMs }) => ({ nextAfterMs: nextAfterMs - 0.001 }),
      ({ allowed }) => ({ allowed: !allowed }),
      () => ({ cost: 3 }),
    ] satisfies ((verdict: Verdict) => Partial<Verdict>)[]) {
      expect(() => new Replay(limits).explain(off(change))).toThrow();
    }
    const twice = answers.with(
      member,
      (answers[member] ?? []).flatMap((answer) => [answer, answer]),
    );
    expect(() => new Replay(limits).explain(twice)).toThrow();
  });
});

describe('eight processes that hammer layered limits', () => {
  const [all, half, own] = [150, 100, 30];

  test.each([
    ['bucket, fixed window, log', [bucket, fixed, log]],
    ['sliding window, slots, leaky bucket', [sliding, slots, leaky]],
    ['log, leaky bucket, slots', [log, leaky, slots]],
  ] as const)('take from all of them or none: %s', async (name, [forAll, forHalf, forOne]) => {
    const limits = [
      { name: 'all', policy: forAll(all) },
      { name: 'half', policy: forHalf(half) },
      { name: 'own', policy: forOne(own) },
    ];
    const keysOf = (member: number): { all: string; half: string; own: string } => ({
      all: 'all',
      half: `half ${member % 2}`,
      own: `member ${member}`,
    });
    const answers = await hammer({ limits, keysOf, rounds: 5, costs: Array(8).fill(1) }, name);
    const counts = answers.map((member) => admittedOf(member).length);
    expect(sum(counts)).toBe(all);
    const left = onlooker(name, limits);
    for (const [member, count] of counts.entries()) {
      const { verdicts } = await left.peek(keysOf(member));
      const ofHalf = sum(counts.filter((_, other) => other % 2 === member % 2));
      const remaining = verdicts.map((verdict) => verdict.remaining);
      expect(remaining).toEqual([0, half - ofHalf, own - count]);
    }
  });
});
