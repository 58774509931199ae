import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  createLimiter,
  fromRateLimiterFlexible,
  type Limiter,
  type RateLimiterFlexibleOptions,
  slidingWindow,
  TollgateConfigError,
} from '@tollgate/core';
import {
  BurstyRateLimiter,
  type IRateLimiterOptions,
  RateLimiterMemory,
  RateLimiterRes,
  RateLimiterUnion,
} from 'rate-limiter-flexible';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Random } from '../../packages/core/src/testing/random.ts';
import { ask } from '../http/clients.ts';
import { LateStore } from '../http/late-store.ts';
import { nextSeed } from '../seed.ts';
import { at, datedStore, history, tellDates, WINDOW_MS } from './side-by-side.ts';

tellDates();

/** What either says of a request, in their words. */
interface Said {
  readonly allowed: boolean;
  readonly remainingPoints: number;
  readonly msBeforeNext: number;
}

type Consume = (key: string, points: number) => Said | Promise<Said>;

/** One of theirs: it resolves and rejects with the same sort of result. */
function asking(limiter: RateLimiterMemory): Consume {
  return async (key, points) => {
    const said = (allowed: boolean, { remainingPoints, msBeforeNext }: RateLimiterRes): Said => ({
      allowed,
      remainingPoints,
      msBeforeNext,
    });
    try {
      return said(true, await limiter.consume(key, points));
    } catch (result) {
      if (result instanceof RateLimiterRes) return said(false, result);
      throw result;
    }
  };
}

function asked(limiter: Limiter, name: string): Consume {
  return async (key, points) => {
    const { allowed, remaining, resetAfterMs, retryAfterMs } = await limiter.consume(
      { [name]: key },
      { cost: points },
    );
    return {
      allowed,
      remainingPoints: remaining,
      msBeforeNext: allowed ? resetAfterMs : retryAfterMs,
    };
  };
}

/** An API that says what its limiter says: in a status, and in fields as their documentation shows them. */
async function listen(consume: Consume): Promise<string> {
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://localhost');
    const points = Number(searchParams.get('points') ?? 1);
    void Promise.resolve(consume(searchParams.get('key') ?? '', points)).then((said) => {
      response.statusCode = said.allowed ? 200 : 429;
      response.setHeader('Retry-After', said.msBeforeNext / 1_000);
      response.setHeader('X-RateLimit-Remaining', said.remainingPoints);
      response.end(JSON.stringify(said));
    });
  });
  server.listen(0, '127.0.0.1');
  onTestFinished(() => server.close().closeAllConnections());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function limiterOf(options: IRateLimiterOptions & RateLimiterFlexibleOptions): Limiter {
  const limiter = createLimiter({
    store: datedStore(),
    limits: [fromRateLimiterFlexible(options)],
  });
  onTestFinished(() => limiter.close());
  return limiter;
}

async function sideBySide(
  options: IRateLimiterOptions & RateLimiterFlexibleOptions,
): Promise<{ theirs: string; ours: string }> {
  return {
    theirs: await listen(asking(new RateLimiterMemory(options))),
    ours: await listen(asked(limiterOf(options), options.keyPrefix ?? 'rlflx')),
  };
}

const MINUTE = WINDOW_MS / 1_000;

describe('the same traffic is decided alike', () => {
  it.each([
    { options: { points: 4, duration: MINUTE }, costs: [1] },
    { options: { points: 1, duration: MINUTE, keyPrefix: 'login' }, costs: [1] },
    // What nobody refuses may cost anything.
    { options: { points: 500, duration: MINUTE }, costs: [1, 2, 7] },
    { options: { points: 3, duration: MINUTE, blockDuration: MINUTE }, costs: [1] },
    { options: { points: 3, duration: MINUTE, blockDuration: 3 * MINUTE }, costs: [1, 2] },
  ])('$options', async ({ options, costs }) => {
    const { theirs, ours } = await sideBySide(options);
    const random = new Random(nextSeed());
    const traffic = history(nextSeed(), {
      windows: 6,
      perWindow: 14,
      clients: 4,
      statuses: [200],
      skips: false,
    });
    const counts = { 200: 0, 429: 0 };
    const blockedUntil = new Map<number, number>();
    for (const { atMs, client } of traffic) {
      const unblocked = blockedUntil.get(client) ?? 0;
      // A key whose block ends within one of our windows comes again at the start of the next one.
      if (atMs >= unblocked && atMs < Math.ceil(unblocked / WINDOW_MS) * WINDOW_MS) continue;
      at(atMs);
      const path = `/?key=${client}&points=${random.from(costs)}`;
      const reply = await ask(`${theirs}${path}`);
      const our = await ask(`${ours}${path}`);
      expect([our.status, JSON.parse(our.text)], path).toEqual([
        reply.status,
        JSON.parse(reply.text),
      ]);
      expect(our.headers.get('retry-after')).toBe(reply.headers.get('retry-after'));
      counts[reply.status as 200 | 429]++;
      const { allowed, msBeforeNext } = JSON.parse(reply.text) as Said;
      if (!allowed) blockedUntil.set(client, atMs + msBeforeNext);
    }
    expect(counts[200]).toBeGreaterThan(5);
    if (options.points < 10) expect(counts[429]).toBeGreaterThan(5);
  });
});

describe('where the two differ', () => {
  it('our windows are those of the clock, theirs begin with a key’s first request', async () => {
    const { theirs, ours } = await sideBySide({ points: 1, duration: MINUTE });
    const statuses = async (): Promise<number[]> =>
      [await ask(`${theirs}/?key=a`), await ask(`${ours}/?key=a`)].map(({ status }) => status);
    at(WINDOW_MS / 2);
    expect(await statuses()).toEqual([200, 200]);
    expect(await statuses()).toEqual([429, 429]);
    at(WINDOW_MS);
    expect(await statuses()).toEqual([429, 200]);
    at(WINDOW_MS * 1.5);
    expect(await statuses()).toEqual([200, 429]);
  });

  it('what is refused costs nothing', async () => {
    const { theirs, ours } = await sideBySide({ points: 5, duration: MINUTE });
    const statuses = async (points: number): Promise<number[]> =>
      [
        await ask(`${theirs}/?key=a&points=${points}`),
        await ask(`${ours}/?key=a&points=${points}`),
      ].map(({ status }) => status);
    expect(await statuses(3)).toEqual([200, 200]);
    expect(await statuses(4)).toEqual([429, 429]);
    // Theirs charged the four; two are left in ours.
    expect(await statuses(2)).toEqual([429, 200]);
  });

  it('layers charge all or nothing', async () => {
    const small = { points: 1, duration: MINUTE, keyPrefix: 'minute' };
    const large = { points: 5, duration: 60 * MINUTE, keyPrefix: 'hour' };
    const union = new RateLimiterUnion(new RateLimiterMemory(small), new RateLimiterMemory(large));
    const limiter = createLimiter({
      store: datedStore(),
      limits: [fromRateLimiterFlexible(small), fromRateLimiterFlexible(large)],
    });
    const keys = { minute: 'a', hour: 'a' };
    const admitted = { theirs: 0, ours: 0 };
    for (let minute = 0; minute < 3; minute++) {
      at(minute * WINDOW_MS);
      for (let i = 0; i < 3; i++) {
        admitted.theirs += await union.consume('a').then(
          () => 1,
          () => 0,
        );
        if (limiter.consume(keys).allowed) admitted.ours++;
      }
    }
    // In theirs the minute's refusals ate the hour's budget.
    expect(admitted).toEqual({ theirs: 2, ours: 3 });
  });

  it('bursts beside a rate are one bucket, and are not given again in the next window', async () => {
    const bursty = new BurstyRateLimiter(
      new RateLimiterMemory({ points: 1, duration: 1 }),
      new RateLimiterMemory({ points: 2, duration: 10, keyPrefix: 'burst' }),
    );
    const admitted: boolean[] = [];
    for (let i = 0; i < 4; i++) {
      admitted.push(
        await bursty.consume('a').then(
          () => true,
          () => false,
        ),
      );
    }
    expect(admitted).toEqual([true, true, true, false]);
    const limiter = createLimiter({
      store: datedStore(),
      limits: [
        { name: 'api', policy: { algorithm: 'token-bucket', capacity: 3, rate: 1, per: '1s' } },
      ],
    });
    const ours = [0, 1, 2, 3].map(() => limiter.consume({ api: 'a' }).allowed);
    expect(ours).toEqual(admitted);
  });

  it('a store that fails is told in the decision, and is never taken for a limit', async () => {
    const store = new LateStore();
    store.fault = new Error('out of reach');
    const limit = fromRateLimiterFlexible({ points: 5, duration: MINUTE });
    const limiter = createLimiter({
      store,
      limits: [limit],
      logger: { warn: () => undefined, error: () => undefined },
    });
    const decision = await limiter.consume({ rlflx: 'a' });
    expect(decision).toMatchObject({ allowed: false, reason: 'store-unavailable' });
    await limiter.close();
  });

  it('an execution that is spread is held by a queue that drains', async () => {
    const evenly = new RateLimiterMemory({ points: 4, duration: 0.2, execEvenly: true });
    const began = performance.now();
    await evenly.consume('a');
    await evenly.consume('a');
    expect(performance.now() - began).toBeGreaterThan(40);
    const limiter = createLimiter({
      store: datedStore(),
      limits: [
        { name: 'api', policy: { algorithm: 'leaky-bucket', capacity: 4, rate: 4, per: 200 } },
      ],
    });
    const delays = [0, 1, 2].map(() => limiter.consume({ api: 'a' }).delayMs);
    expect(delays).toEqual([0, 50, 100]);
  });
});

describe('what cannot be carried over exactly', () => {
  const plain = { points: 5, duration: 60 };
  const mistakes: readonly [path: string, options: object, mend: string][] = [
    ['points', { points: -1, duration: 60 }, 'whole number'],
    ['points', { points: 1.5, duration: 60 }, 'whole number'],
    ['points', { points: '5', duration: 60 }, 'whole number'],
    ['duration', { points: 5 }, 'seconds'],
    ['duration', { points: 5, duration: 0 }, 'never ends'],
    ['duration', { points: 5, duration: 401 * 86_400 }, '400 days'],
    ['blockDuration', { ...plain, blockDuration: 59 }, 'no less than the duration'],
    ['blockDuration', { ...plain, blockDuration: '1m' }, 'seconds'],
    ['keyPrefix', { ...plain, keyPrefix: '' }, 'a letter'],
    ['keyPrefix', { ...plain, keyPrefix: 'api:login' }, 'a letter'],
    ['blockOnConsumed', { ...plain, blockOnConsumed: 9 }, 'ban'],
    ['execEvenly', { ...plain, execEvenly: true }, 'leakyBucket'],
    ['execEvenlyMinDelayMs', { ...plain, execEvenlyMinDelayMs: 9 }, 'leakyBucket'],
    ['inMemoryBlockOnConsumed', { ...plain, inMemoryBlockOnConsumed: 5 }, 'lease'],
    ['insuranceLimiter', { ...plain, insuranceLimiter: {} }, 'whenStoreFails'],
    ['storeClient', { ...plain, storeClient: {} }, 'redisStore'],
    ['rejectIfRedisNotReady', { ...plain, rejectIfRedisNotReady: true }, 'deadlineMs'],
    ['tableName', { ...plain, tableName: 'x' }, 'no counterpart'],
  ];

  it.each(mistakes)('%s: %o', (path, options, mend) => {
    const make = (): unknown => fromRateLimiterFlexible(options as RateLimiterFlexibleOptions);
    expect(make).toThrow(TollgateConfigError);
    expect(make).toThrow(mend);
    expect(make).toThrow(expect.objectContaining({ path }));
  });

  it('what says nothing is as good as left out', () => {
    const options = { ...plain, blockDuration: 0, execEvenly: false, insuranceLimiter: undefined };
    expect(fromRateLimiterFlexible(options)).toEqual(fromRateLimiterFlexible(plain));
  });

  it('a limit that it makes is a limit like any other, which may be changed', () => {
    const limiter = limiterOf(plain);
    limiter.update('rlflx', slidingWindow({ limit: 1, window: '1m' }));
    expect([0, 1].map(() => limiter.consume({ rlflx: 'a' }))).toMatchObject([
      { allowed: true },
      { allowed: false },
    ]);
  });
});
