import { createLimiter, fixedWindow, type LimitOptions, TollgateConfigError } from '@tollgate/core';
import { describe, expect, test } from 'vitest';
import { concurrency, leakyBucket, slidingLog, tokenBucket } from '../src/policy.ts';
import { PromisedStore } from './promised-store.ts';

/** A store that leases could be of. */
class LeasingStore extends PromisedStore {
  returnLeases(): Promise<void> {
    return Promise.resolve();
  }

  ban(keys: Parameters<typeof this.inner.ban>[0], length: number): Promise<void> {
    return Promise.resolve(this.inner.ban(keys, length));
  }
}

const policy = fixedWindow({ limit: 100, window: '1m' });
const bucket = tokenBucket({ capacity: 100, rate: 500, per: '1s' });

function pathOf(limit: Partial<LimitOptions>): string {
  try {
    createLimiter({ store: new LeasingStore(), limits: [{ name: 'a', policy, ...limit }] });
  } catch (error) {
    if (error instanceof TollgateConfigError) return `${error.path}: ${error.message}`;
    throw error;
  }
  return 'none';
}

describe('leases that cannot work fail at the start', () => {
  test.each<readonly [unknown, RegExp]>([
    [true, /^limits\[0\]\.lease: .*expected options such as \{ share: 0\.1 \}/],
    [null, /^limits\[0\]\.lease: /],
    [[], /^limits\[0\]\.lease: /],
    [{ ttl: 5 }, /^limits\[0\]\.lease\.ttl: .*there are share, overdraft, syncMs/],
    [{ share: 0 }, /^limits\[0\]\.lease\.share: .*above 0 and up to 1/],
    [{ share: 1.5 }, /^limits\[0\]\.lease\.share: /],
    [{ share: '10%' }, /^limits\[0\]\.lease\.share: /],
    [{ share: Number.NaN }, /^limits\[0\]\.lease\.share: /],
    [{ overdraft: -1 }, /^limits\[0\]\.lease\.overdraft: .*whole number of 0 or more/],
    [{ overdraft: 0.5 }, /^limits\[0\]\.lease\.overdraft: /],
    [{ syncMs: 0 }, /^limits\[0\]\.lease\.syncMs: .*from 1 to 60000/],
    [{ syncMs: '100ms' }, /^limits\[0\]\.lease\.syncMs: /],
    [{ syncMs: Infinity }, /^limits\[0\]\.lease\.syncMs: /],
  ])('%j', (lease, expected) => {
    expect(pathOf({ lease: lease as LimitOptions['lease'] & object })).toMatch(expected);
  });

  test.each([
    slidingLog({ limit: 5, window: '1m' }),
    leakyBucket({ capacity: 500, rate: 5, per: '1s' }),
    concurrency({ limit: 5 }),
  ])('of a $algorithm policy', (unfit) => {
    expect(pathOf({ policy: unfit, lease: {} })).toMatch(
      /^limits\[0\]\.lease: .*cannot be taken ahead of time; use token-bucket, fixed-window or sliding-window/,
    );
  });

  test('of a bucket that gains more than it holds while a lease lasts', () => {
    expect(pathOf({ policy: bucket, lease: { syncMs: 200 } })).toMatch(
      /a capacity of 100 is too small for leases of 200 ms.*raise the capacity, lower syncMs/,
    );
    expect(pathOf({ policy: bucket, lease: { syncMs: 100 } })).toBe('none');
    expect(pathOf({ policy: tokenBucket({ ...bucket, capacity: 0 }), lease: {} })).toBe('none');
  });

  test('of a cost above what the leases leave', () => {
    expect(pathOf({ policy: bucket, cost: 51, lease: {} })).toMatch(
      /a cost of 51 can never be admitted by the 50 units that leases leave/,
    );
    expect(pathOf({ policy: bucket, cost: 50, lease: {} })).toBe('none');
  });

  test('beside a ban', () => {
    expect(pathOf({ lease: {}, ban: { after: 3, within: '1m', for: '1m' } })).toMatch(
      /^limits\[0\]\.lease: .*leave lease or ban out/,
    );
  });

  test('in memory, which nobody shares', () => {
    const limits = [{ name: 'a', policy, lease: {} }];
    expect(() => createLimiter({ limits })).toThrow(
      /limits\[0\]\.lease: the store knows no leases/,
    );
  });
});

test('a policy that a call or an update brings has to be fit, too', async () => {
  const store = new LeasingStore();
  const limiter = createLimiter({ store, limits: [{ name: 'a', policy, lease: {} }] });
  expect(() => limiter.update('a', leakyBucket({ capacity: 5, rate: 5, per: '1s' }))).toThrow(
    TollgateConfigError,
  );
  await limiter.close();
});
