import { concurrency, leakyBucket, tokenBucket, TollgateStoreError } from '@tollgate/core';
import type { RedisStoreOptions } from '@tollgate/core/redis';
import { describe, expect, it } from 'vitest';
import { Site } from './faults.ts';
import { limiterOn, PATIENT, SOON, storeAt, timed, type Told } from './limiters.ts';

describe('while Redis is stopped', () => {
  async function stopped(
    limit?: Parameters<typeof limiterOn>[1],
    options?: RedisStoreOptions,
  ): Promise<Told & { readonly site: Site }> {
    const site = await Site.open();
    const made = limiterOn(storeAt(site.proxy.port, options), limit);
    await expect.poll(async () => (await made.limiter.peek({ a: 'k' })).source, SOON).toBe('store');
    return { ...made, site };
  }

  it('settles within the deadline, and tells of what it could not give back', async () => {
    const { limiter, errors, site } = await stopped();
    let decision = await limiter.consume({ a: 'k' });
    while (decision.source !== 'store') decision = await limiter.consume({ a: 'k' });
    errors.length = 0;
    site.server.pause();
    await timed(async () => decision.settle(0));
    expect(errors).toHaveLength(1);
    expect(errors[0]).toBeInstanceOf(TollgateStoreError);
  });

  it('frees slots within the deadline, and renews nothing for longer', async () => {
    const slots = { policy: concurrency({ limit: 2, slotTimeout: 60 }) };
    const { limiter, site } = await stopped(slots);
    const held = await limiter.consume({ a: 'k' });
    site.server.pause();
    await new Promise((resolve) => setTimeout(resolve, 100));
    await timed(async () => held.release());
    const without = await timed(() => limiter.consume({ a: 'k' }));
    expect(without).toMatchObject({ allowed: true, source: 'fallback', remaining: 1 });
    await without.release();
    expect((await limiter.peek({ a: 'k' })).remaining).toBe(2);
  });

  it.each(['refund', 'reset'] as const)('rejects a %s within the deadline', async (call) => {
    const { limiter, site } = await stopped();
    site.server.pause();
    await timed(async () => {
      await expect(limiter[call]({ a: 'k' })).rejects.toBeInstanceOf(TollgateStoreError);
    });
  });

  it('refunds and resets what it counts itself', async () => {
    const { limiter, site } = await stopped();
    site.server.pause();
    expect((await limiter.charge({ a: 'k' }, 10)).remaining).toBe(90);
    await limiter.refund({ a: 'k' }, 4).catch(() => undefined);
    expect((await limiter.peek({ a: 'k' })).remaining).toBe(94);
    await limiter.reset({ a: 'k' }).catch(() => undefined);
    expect((await limiter.peek({ a: 'k' })).remaining).toBe(100);
  });

  it('answers a crowd within one deadline, and tells of each fault once', async () => {
    const { limiter, errors, site } = await stopped();
    site.server.pause();
    const all = Array.from({ length: 500 }, () => timed(() => limiter.consume({ a: 'k' })));
    const decisions = await Promise.all(all);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(100);
    // A batch that fails is one fault, however many calls it was of.
    expect(errors.length).toBeLessThan(20);
    expect(new Set(errors).size).toBe(errors.length);
  });

  it('bounds the calls that are not answered yet', async () => {
    const { limiter, errors, site } = await stopped({}, { ...PATIENT, batch: false });
    site.server.pause();
    const all = Array.from({ length: 300 }, () => limiter.consume({ a: 'k' }));
    const beyond = await timed(() => Promise.all(all.slice(256)));
    expect(new Set(beyond.map(({ source }) => source))).toEqual(new Set(['fallback']));
    expect(errors.map(String)).toEqual(['TollgateStoreError: 256 calls are not answered yet']);
    site.server.resume();
    const within = await Promise.all(all.slice(0, 256));
    expect(new Set(within.map(({ source }) => source))).toEqual(new Set(['store']));
    expect(within.filter(({ allowed }) => allowed)).toHaveLength(100);
  });

  it('admits those who wait without Redis, or once it is back', async () => {
    const { limiter, site } = await stopped({
      policy: tokenBucket({ capacity: 1, rate: 20, per: '1s' }),
    });
    site.server.pause();
    for (let i = 0; i < 3; i++) expect((await limiter.wait({ a: 'k' })).source).toBe('fallback');
  });

  it('has those who wait for a limit that denies admitted once Redis is back', async () => {
    const { limiter, site } = await stopped({ whenStoreFails: 'deny' });
    site.server.pause();
    expect((await timed(() => limiter.consume({ a: 'k' }))).reason).toBe('store-unavailable');
    await expect(limiter.wait({ a: 'k' }, { maxWaitMs: 200 })).rejects.toThrow('200 ms');
    const waiting = limiter.wait({ a: 'k' }, { maxWaitMs: 10_000 });
    site.server.resume();
    expect(await waiting).toMatchObject({ allowed: true, source: 'store' });
  });

  it('holds requests of a leaky bucket as long as the same policy says here', async () => {
    const { limiter, site } = await stopped({
      policy: leakyBucket({ capacity: 2, rate: 1, per: '1h' }),
    });
    site.server.pause();
    const delays: number[] = [];
    for (let i = 0; i < 3; i++) delays.push((await limiter.consume({ a: 'k' })).delayMs);
    expect(delays[0]).toBe(0);
    expect(delays[1]).toBeGreaterThan(3_590_000);
    expect(delays[2]).toBe(0);
  });

  it('keeps a key refused that Redis said is exhausted', async () => {
    const { limiter, site } = await stopped();
    await limiter.consume({ a: 'k' }, { cost: 98 });
    await limiter.consume({ a: 'other' }, { cost: 98 });
    expect((await limiter.consume({ a: 'k' }, { cost: 2 })).remaining).toBe(0);
    site.server.pause();
    const refused = await timed(() => limiter.consume({ a: 'k' }));
    expect(refused).toMatchObject({
      allowed: false,
      reason: 'limited',
      source: 'fallback',
      remaining: 0,
    });
    expect(refused.retryAfterMs).toBeGreaterThan(80_000_000);
    expect((await timed(() => limiter.consume({ a: 'other' }))).allowed).toBe(true);
  });
});
