import { createLimiter, type Limiter, type LimiterOptions, tokenBucket } from '@tollgate/core';
import { redisStore, type RedisStore, type RedisStoreOptions } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { expect, onTestFinished } from 'vitest';
import { DEADLINE_MS, SLACK_MS } from './outage.ts';

/** So slow that no unit comes back during a test. */
const policy = tokenBucket({ capacity: 100, rate: 1, per: '1d' });
export const SOON: { timeout: number; interval: number } = { timeout: 3_000, interval: 20 };
/** For tests in which nothing is to be late, on however busy a machine. */
export const PATIENT = { deadlineMs: 10_000 } as const;

/** A store of its own connection, until the test is over. */
export function storeAt(port: number, options: RedisStoreOptions = {}): RedisStore {
  const client = new Redis(port, '127.0.0.1', { lazyConnect: true });
  const store = redisStore(client, options);
  onTestFinished(() => store.close());
  return store;
}

export interface Told {
  readonly limiter: Limiter<RedisStore>;
  readonly errors: unknown[];
}

/** A limiter of one limit, called `a`, that keeps the errors it is told of. */
export function limiterOn(
  store: RedisStore,
  limit: Partial<LimiterOptions['limits'][number]> = {},
): Told {
  const errors: unknown[] = [];
  const limiter = createLimiter({
    store,
    limits: [{ name: 'a', policy, ...limit }],
    onStoreError: (error) => errors.push(error),
  });
  return { limiter, errors };
}

/** Holds a call to the deadline. */
export async function timed<T>(call: () => Promise<T>): Promise<T> {
  const began = performance.now();
  try {
    return await call();
  } finally {
    expect(performance.now() - began).toBeLessThan(DEADLINE_MS + SLACK_MS);
  }
}
