import { createLimiter, fixedWindow, type Limiter, type LimitOptions } from '@tollgate/core';
import type { RedisStore } from '@tollgate/core/redis';
import { expect, onTestFinished, test } from 'vitest';
import { Site } from './faults.ts';
import { storeAt } from './limiters.ts';

const policy = fixedWindow({ limit: 1_000, window: '365d' });

interface Opened {
  readonly site: Site;
  readonly time: { ms: number };
  readonly limiter: Limiter<RedisStore>;
  readonly errors: unknown[];
}

/** A limiter on a Redis of its own, and the time, in ms, that both go by. */
async function open(limit: Partial<LimitOptions>): Promise<Opened> {
  const site = await Site.open();
  const time = { ms: 1_000_000_000_000 };
  const store = storeAt(site.server.port, { deadlineMs: 500, clock: () => time.ms * 1_000 });
  const errors: unknown[] = [];
  const limiter = createLimiter({
    store,
    limits: [{ name: 'a', policy, lease: {}, ...limit }],
    onStoreError: (error) => errors.push(error),
  });
  onTestFinished(() => limiter.close());
  return { site, time, limiter, errors };
}

/** Asks often enough to be given a lease of many units. */
async function warm({ limiter, time }: Opened): Promise<void> {
  for (let i = 0; i < 10; i++) {
    time.ms += 5;
    await Promise.all(Array.from({ length: 10 }, () => limiter.consume({ a: 'k' })));
    await limiter.peek({ a: 'k' });
  }
}

test('leases serve until they are over, and then the limit says what to do', async () => {
  const opened = await open({ whenStoreFails: 'deny' });
  await warm(opened);
  const { site, limiter, time } = opened;
  await site.kill();
  time.ms += 20;
  expect(await said(limiter)).toEqual([true, 'lease', 'ok']);
  time.ms += 200;
  expect(await said(limiter)).toEqual([false, 'none', 'store-unavailable']);
  await site.restart();
  await expect.poll(() => said(limiter), { timeout: 20_000 }).toEqual([true, 'lease', 'ok']);
});

test('those who wait for a call that fails are decided by the limit, and the fault is told once', async () => {
  const opened = await open({});
  await opened.limiter.peek({ a: 'k' });
  const { site, limiter, errors } = opened;
  site.server.pause();
  const decisions = await Promise.all(
    Array.from({ length: 50 }, () => limiter.consume({ a: 'k' })),
  );
  expect(decisions.map(({ allowed, source }) => [allowed, source])).toEqual(
    Array.from({ length: 50 }, () => [true, 'fallback']),
  );
  expect(errors).toHaveLength(1);
  site.server.resume();
});

test('with an overdraft nobody waits for a Redis that does not answer', async () => {
  const opened = await open({ lease: { overdraft: 3 }, whenStoreFails: 'deny' });
  await opened.limiter.peek({ a: 'k' });
  const { site, limiter } = opened;
  site.server.pause();
  let settled = 0;
  const all = Array.from({ length: 5 }, async () => {
    const { allowed } = await limiter.consume({ a: 'k' });
    settled++;
    return allowed;
  });
  // A turn of the event loop, in which no answer could come.
  await new Promise((resolve) => setImmediate(resolve));
  expect(settled).toBe(5);
  expect(await Promise.all(all)).toEqual([true, true, true, false, false]);
  site.server.resume();
});

test('a limiter closes although Redis is gone', async () => {
  const opened = await open({});
  await warm(opened);
  await opened.site.kill();
  await expect(opened.limiter.close()).resolves.toBeUndefined();
});

async function said(limiter: Opened['limiter']): Promise<readonly unknown[]> {
  const { allowed, source, reason } = await limiter.consume({ a: 'k' });
  return [allowed, source, reason];
}
