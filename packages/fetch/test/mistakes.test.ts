import { createLimiter, tokenBucket } from '@tollgate/core';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { createFetch, type FetchOptions } from '../src/index.ts';

const limiter = createLimiter({
  limits: [{ name: 'api', policy: tokenBucket({ capacity: 1, rate: 1, per: '1s' }) }],
});

describe('createFetch', () => {
  it('returns what has the exact type of the platform', () => {
    expectTypeOf(createFetch()).toEqualTypeOf<typeof globalThis.fetch>();
    expect(createFetch()).toBeTypeOf('function');
  });

  it.each([
    [null, ''],
    [5, ''],
    [{ retries: 3 }, 'retries'],
    [{ limiter }, 'keys'],
    [{ limiter: {}, keys: {} }, 'limiter'],
    [{ limiter, keys: 'a' }, 'keys'],
    [{ cost: -1 }, 'cost'],
    [{ cost: 1.5 }, 'cost'],
    [{ cost: '1' }, 'cost'],
    [{ settle: true }, 'settle'],
    [{ maxWaitMs: -1 }, 'maxWaitMs'],
    [{ maxWaitMs: NaN }, 'maxWaitMs'],
    [{ maxWaitMs: '1s' }, 'maxWaitMs'],
    [{ pace: 1 }, 'pace'],
    [{ retry: true }, 'retry'],
    [{ retry: { limit: 3 } }, 'retry.limit'],
    [{ retry: { retries: -1 } }, 'retry.retries'],
    [{ retry: { retries: Infinity } }, 'retry.retries'],
    [{ retry: { statuses: 429 } }, 'retry.statuses'],
    [{ retry: { statuses: [200] } }, 'retry.statuses'],
    [{ retry: { methods: 'POST' } }, 'retry.methods'],
    [{ retry: { networkErrors: 'yes' } }, 'retry.networkErrors'],
    [{ retry: { baseMs: 0 } }, 'retry.baseMs'],
    [{ retry: { maxDelayMs: NaN } }, 'retry.maxDelayMs'],
    [{ retry: { maxTotalMs: -1 } }, 'retry.maxTotalMs'],
    [{ retry: { budget: true } }, 'retry.budget'],
    [{ retry: { budget: { share: 2 } } }, 'retry.budget.share'],
    [{ retry: { budget: { minimum: -1 } } }, 'retry.budget.minimum'],
    [{ retry: { budget: { ratio: 1 } } }, 'retry.budget.ratio'],
    [{ retry: { random: 1 } }, 'retry.random'],
    [{ fetch: 'fetch' }, 'fetch'],
    [{ onRetry: 1 }, 'onRetry'],
    [{ onGiveUp: 1 }, 'onGiveUp'],
    [{ logger: {} }, 'logger'],
  ])('refuses %j, and says where: %s', (options, path) => {
    expect(() => createFetch(options as FetchOptions)).toThrow(
      expect.objectContaining({ name: 'TollgateConfigError', path }) as Error,
    );
  });

  it('takes undefined for an option that is left out', async () => {
    const fetch = createFetch({ retry: undefined, fetch: undefined } as unknown as FetchOptions);
    expect((await fetch('data:text/plain,hello')).status).toBe(200);
  });

  it('rejects a call whose keys or costs are wrong', async () => {
    const options = { limiter, fetch: () => Promise.reject(new Error('sent')) } as const;
    await expect(
      createFetch({ ...options, keys: { other: 'a' } })('http://localhost/'),
    ).rejects.toMatchObject({ code: 'TOLLGATE_ARGUMENT' });
    await expect(
      createFetch({ ...options, keys: { api: 'a' }, cost: () => -1 })('http://localhost/'),
    ).rejects.toMatchObject({ code: 'TOLLGATE_ARGUMENT' });
    const failing = createFetch({
      ...options,
      keys: () => {
        throw new Error('no account');
      },
    });
    await expect(failing('http://localhost/')).rejects.toThrow('no account');
  });
});
