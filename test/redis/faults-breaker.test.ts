import { redisStore, type RedisStoreOptions } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { Site } from './faults.ts';
import { limiterOn, PATIENT, SOON, storeAt } from './limiters.ts';

describe('the breaker', () => {
  it('opens after so many failures in a row, and then neither sends nor waits', async () => {
    const site = await Site.open();
    const breaker = { failures: 3, probeMs: 600_000 };
    const store = storeAt(site.proxy.port, { ...PATIENT, breaker });
    const { limiter, errors } = limiterOn(store, { whenStoreFails: 'deny' });
    expect((await limiter.consume({ a: 'k' })).source).toBe('store');
    // Those that keep the process alive.
    const timers = (): number =>
      process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
    const before = timers();
    expect(limiter.health()).toMatchObject({ store: 'up' });
    await site.ask('CONFIG', 'SET', 'maxmemory', '1');
    for (let failures = 1; failures <= 3; failures++) {
      expect(limiter.health().store).toBe('up');
      await limiter.consume({ a: 'k' });
      expect(errors).toHaveLength(failures);
    }
    expect(limiter.health().store).toBe('down');
    expect(String(limiter.health().lastError)).toContain('OOM');
    const { received } = site.proxy;
    const times: number[] = [];
    for (let i = 0; i < 300; i++) {
      const began = performance.now();
      const asked = limiter.consume({ a: 'k' });
      if (i === 0) expect(timers()).toBeLessThanOrEqual(before);
      const { retryAfterMs } = await asked;
      times.push(performance.now() - began);
      expect(retryAfterMs).toBeGreaterThan(500_000);
      expect(retryAfterMs).toBeLessThanOrEqual(600_000);
    }
    times.sort((a, b) => a - b);
    expect(times[150]).toBeLessThan(1);
    expect([site.proxy.received, errors.length]).toEqual([received, 3]);
  });

  it('says how the store is, and since when', async () => {
    const site = await Site.open();
    const store = storeAt(site.proxy.port, { deadlineMs: 200, breaker: { probeMs: 50 } });
    const { limiter } = limiterOn(store, { whenStoreFails: 'allow' });
    await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
    const up = limiter.health();
    site.server.pause();
    const seen = new Set<string>();
    const downs = new Set<number>();
    while (seen.size < 3) {
      await limiter.peek({ a: 'k' });
      const { store: state, since } = limiter.health();
      seen.add(state);
      if (state !== 'up') downs.add(since);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect([...seen]).toEqual(['up', 'down', 'probing']);
    // Being probed is being down still.
    const [since] = downs;
    expect(downs.size).toBe(1);
    expect(since).toBeGreaterThanOrEqual(up.since);
    site.server.resume();
    await expect.poll(() => limiter.health().store, SOON).toBe('up');
    expect(limiter.health().since).toBeGreaterThan(since as number);
  });

  it('opens again at the first failure after it was closed by a probe alone', async () => {
    const site = await Site.open();
    const store = storeAt(site.proxy.port, { ...PATIENT, breaker: { probeMs: 20 } });
    const { limiter, errors } = limiterOn(store);
    await limiter.consume({ a: 'k' });
    // Probes are answered, and scripts are not.
    await site.ask('ACL', 'SETUSER', 'default', '-evalsha', '-eval');
    for (let i = 0; i < 5; i++) await limiter.consume({ a: 'k' });
    expect(limiter.health().store).not.toBe('up');
    await expect.poll(() => limiter.health().store, SOON).toBe('up');
    const before = errors.length;
    await limiter.consume({ a: 'k' });
    expect(errors).toHaveLength(before + 1);
    expect(limiter.health().store).not.toBe('up');
  });

  it.each<[object, string]>([
    [{ breaker: { failures: 0 } }, 'breaker.failures'],
    [{ breaker: { failures: 1.5 } }, 'breaker.failures'],
    [{ breaker: { failures: '5' } }, 'breaker.failures'],
    [{ breaker: { probeMs: 0 } }, 'breaker.probeMs'],
    [{ breaker: { probeMs: NaN } }, 'breaker.probeMs'],
    [{ breaker: { probeMs: 2 ** 31 } }, 'breaker.probeMs'],
    [{ breaker: { threshold: 5 } }, 'breaker.threshold'],
    [{ breaker: null }, 'breaker'],
    [{ breaker: true }, 'breaker'],
    [{ breaker: [] }, 'breaker'],
    [{ deadlineMs: 0 }, 'deadlineMs'],
    [{ deadlineMs: Infinity }, 'deadlineMs'],
    [{ deadlineMs: '100' }, 'deadlineMs'],
  ])('refuses %o', (options, path) => {
    const client = new Redis(1, '127.0.0.1', { lazyConnect: true });
    expect(() => redisStore(client, options as RedisStoreOptions)).toThrow(
      expect.objectContaining({ name: 'TollgateConfigError', path }),
    );
    client.disconnect();
  });
});
