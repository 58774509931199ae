import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { partOf } from '../src/fallback.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import type { LimitOptions } from '../src/limits.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';
import { PromisedStore } from './promised-store.ts';

/** So slow that nothing comes back during a test. */
const ten = tokenBucket({ capacity: 10, rate: 1, per: '1d' });
const silent = { warn: () => undefined, error: () => undefined };

function made(...limits: LimitOptions[]): {
  limiter: Limiter<PromisedStore>;
  store: PromisedStore;
} {
  const store = new PromisedStore();
  return { store, limiter: createLimiter({ store, limits, logger: silent }) };
}

function fail(store: PromisedStore): void {
  store.fault = new Error('gone');
}

type Lines = readonly { readonly name: string; readonly key: string }[];

const local: LimitOptions = { name: 'local', policy: ten };
const allow: LimitOptions = { name: 'allow', policy: ten, whenStoreFails: 'allow' };
const deny: LimitOptions = { name: 'deny', policy: ten, whenStoreFails: 'deny' };
const part: LimitOptions = {
  name: 'part',
  policy: ten,
  whenStoreFails: { local: { share: 0.25 } },
};

describe('several limits of one decision, without their store', () => {
  it('are refused, and nothing is charged, where one denies', async () => {
    const { limiter, store } = made(local, deny, allow);
    fail(store);
    const keys = { local: 'k', deny: 'k', allow: 'k' };
    const decision = await limiter.consume(keys);
    expect(decision).toMatchObject({
      allowed: false,
      reason: 'store-unavailable',
      source: 'none',
      retryAfterMs: 1_000,
      binding: { name: 'deny' },
    });
    expect(decision.verdicts.map(({ name, allowed, source }) => [name, allowed, source])).toEqual([
      ['local', true, 'fallback'],
      ['deny', false, 'none'],
    ]);
    expect((await limiter.peek({ local: 'k' })).remaining).toBe(10);
  });

  it('are judged by those that count here, where none denies', async () => {
    const { limiter, store } = made(allow, part, local);
    fail(store);
    const keys = { local: 'k', allow: 'k', part: 'k' };
    const decisions = [];
    for (let i = 0; i < 4; i++) decisions.push(await limiter.consume(keys));
    // A quarter of ten, rounded up.
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    expect(decisions[3]).toMatchObject({ source: 'fallback', binding: { name: 'part', limit: 3 } });
    expect(decisions[0]?.verdicts.map(({ name }) => name)).toEqual(['part', 'local']);
    // All or nothing here, too.
    expect((await limiter.peek({ local: 'k' })).remaining).toBe(7);
  });

  it('have no verdict, no numbers and no wait where all allow', async () => {
    const { limiter, store } = made(allow);
    fail(store);
    for (let i = 0; i < 20; i++) {
      expect(await limiter.consume({ allow: 'k' })).toMatchObject({
        allowed: true,
        reason: 'ok',
        verdicts: [],
        limit: Infinity,
        remaining: Infinity,
        resetAfterMs: 0,
        retryAfterMs: 0,
        source: 'none',
      });
    }
  });

  it('in the shadow refuse nothing, not even where they deny', async () => {
    const { limiter, store } = made({ ...deny, mode: 'shadow' }, { ...part, mode: 'shadow' });
    fail(store);
    for (let i = 0; i < 5; i++) {
      const { allowed, verdicts } = await limiter.consume({ deny: 'k', part: 'k' });
      expect([allowed, verdicts.map(({ name }) => name)]).toEqual([true, ['part']]);
    }
  });

  it('are charged without asking by charge(), but for those that deny', async () => {
    const { limiter, store } = made(local, deny);
    await limiter.charge({ local: 'k' }, 12);
    await limiter.consume({ local: 'k' });
    fail(store);
    expect(await limiter.charge({ local: 'k' }, 12)).toMatchObject({ allowed: true, remaining: 0 });
    expect(await limiter.charge({ deny: 'k' }, 1)).toMatchObject({ reason: 'store-unavailable' });
  });
});

describe('what was decided without the store', () => {
  it('is settled here, also once the store is back', async () => {
    const { limiter, store } = made(local);
    fail(store);
    const decision = await limiter.consume({ local: 'k' }, { cost: 6 });
    store.fault = undefined;
    store.asked.length = 0;
    await decision.settle(2);
    expect(store.asked).toEqual([]);
    expect((await limiter.peek({ local: 'k' })).remaining).toBe(10);
    fail(store);
    expect((await limiter.peek({ local: 'k' })).remaining).toBe(8);
  });

  it('is kept from outage to outage', async () => {
    const { limiter, store } = made(local);
    for (const expected of [6, 2]) {
      fail(store);
      expect((await limiter.consume({ local: 'k' }, { cost: 4 })).remaining).toBe(expected);
      store.fault = undefined;
      await limiter.consume({ local: 'k' });
    }
  });

  it('is counted once by limiters that share the store and the name', async () => {
    const store = new PromisedStore();
    const limiters = [local, local].map((limit) =>
      createLimiter({ store, limits: [limit], logger: silent }),
    );
    fail(store);
    const left = [];
    for (const limiter of limiters) left.push((await limiter.consume({ local: 'k' })).remaining);
    expect(left).toEqual([9, 8]);
  });

  it('holds slots here, which are renewed and freed here', async () => {
    const slots = concurrency({ limit: 1, slotTimeout: 300 });
    const { limiter, store } = made({ name: 'slots', policy: slots });
    fail(store);
    const held = await limiter.consume({ slots: 'k' });
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect((await limiter.consume({ slots: 'k' })).allowed).toBe(false);
    const waiting = limiter.wait({ slots: 'k' });
    await held.release();
    await (await waiting).release();
    expect((await limiter.peek({ slots: 'k' })).remaining).toBe(1);
    expect(store.asked).not.toContain('renew');
    await limiter.close();
  });

  it('leaves the shares of higher priorities alone', async () => {
    const reserved = concurrency({ limit: 10, reserved: { critical: 0.5 } });
    const whenStoreFails = { local: { share: 0.4 } };
    const { limiter, store } = made({ name: 'slots', policy: reserved, whenStoreFails });
    fail(store);
    const take = async (priority: string): Promise<boolean> =>
      (await limiter.consume({ slots: 'k' }, { priority })).allowed;
    const normal = [await take('normal'), await take('normal'), await take('normal')];
    expect([
      ...normal,
      await take('critical'),
      await take('critical'),
      await take('critical'),
    ]).toEqual([true, true, false, true, true, false]);
    await limiter.close();
  });
});

describe('a key that the store said is exhausted', () => {
  async function exhausted(cost = 10): Promise<ReturnType<typeof made>> {
    const both = made(local, allow);
    await both.limiter.consume({ local: 'k' }, { cost });
    return both;
  }

  it('stays refused, with the times that are known', async () => {
    const { limiter, store } = await exhausted();
    const known = await limiter.peek({ local: 'k' });
    fail(store);
    const refused = await limiter.consume({ local: 'k', allow: 'k' });
    expect(refused).toMatchObject({
      allowed: false,
      reason: 'limited',
      source: 'fallback',
      remaining: 0,
    });
    for (const time of ['retryAfterMs', 'resetAfterMs'] as const) {
      expect(refused[time]).toBeLessThanOrEqual(known[time]);
      expect(refused[time]).toBeGreaterThan(known[time] - 5_000);
    }
    expect(refused.binding?.nextAfterMs).toBeGreaterThan(0);
    expect((await limiter.consume({ local: 'other' })).allowed).toBe(true);
    // It takes no budget to refuse.
    expect((await limiter.consume({ local: 'k' }, { cost: 0 })).remaining).toBe(10);
  });

  it('is free for what the store would still have admitted', async () => {
    const { limiter, store } = await exhausted(7);
    expect((await limiter.consume({ local: 'k' }, { cost: 5 })).allowed).toBe(false);
    fail(store);
    const allowed = [];
    for (const cost of [5, 4, 3]) {
      allowed.push((await limiter.peek({ local: 'k' }, { cost })).allowed);
    }
    expect(allowed).toEqual([false, false, true]);
  });

  it.each<[string, (limiter: Limiter<PromisedStore>) => unknown]>([
    ['reset', (limiter) => limiter.reset({ local: 'k' })],
    ['refunded', (limiter) => limiter.refund({ local: 'k' }, 1)],
    [
      'judged by another policy',
      (limiter) => limiter.update('local', tokenBucket({ capacity: 20, rate: 1, per: '1d' })),
    ],
  ])('is free again once it is %s', async (_, free) => {
    const { limiter, store } = await exhausted();
    await free(limiter);
    fail(store);
    expect((await limiter.consume({ local: 'k' })).allowed).toBe(true);
  });

  it('is free again once units of it were settled', async () => {
    const { limiter, store } = made(local);
    const decision = await limiter.consume({ local: 'k' }, { cost: 10 });
    await decision.settle(3);
    fail(store);
    expect((await limiter.consume({ local: 'k' })).allowed).toBe(true);
  });

  it('is not known of slots, which may be released at any moment', async () => {
    const { limiter, store } = made({ name: 'slots', policy: concurrency({ limit: 1 }) });
    await limiter.consume({ slots: 'k' });
    expect((await limiter.consume({ slots: 'k' })).allowed).toBe(false);
    fail(store);
    expect((await limiter.consume({ slots: 'k' })).allowed).toBe(true);
    store.fault = undefined;
    await limiter.close();
  });
});

describe('a ban', () => {
  function banning(policy: Policy): ReturnType<typeof made> {
    const both = made({ name: 'local', policy });
    const { store } = both;
    const unlessFailed = (ban: () => void): Promise<void> =>
      store.fault === undefined ? Promise.resolve(ban()) : Promise.reject(store.fault);
    Object.assign(store, {
      ban: (lines: Lines, length: number) => unlessFailed(() => store.inner.ban(lines, length)),
      unban: (lines: Lines) => unlessFailed(() => store.inner.unban(lines)),
    });
    return both;
  }

  it.each([ten, concurrency({ limit: 1 })])(
    'that the store told of stays, whatever the cost: %o',
    async (policy) => {
      const { limiter, store } = banning(policy);
      // By another process, so that only the verdict tells of it.
      store.inner.ban([{ name: 'local', key: 'k' }], 60_000_000);
      expect((await limiter.consume({ local: 'k' })).reason).toBe('banned');
      fail(store);
      for (const cost of [0, 1]) {
        const refused = await limiter.consume({ local: 'k' }, { cost: { local: cost } });
        expect(refused).toMatchObject({ allowed: false, reason: 'banned', source: 'fallback' });
        expect(refused.retryAfterMs).toBeGreaterThan(50_000);
        expect(refused.retryAfterMs).toBeLessThanOrEqual(60_000);
      }
    },
  );

  it('that the store could not be told of holds here, until it is lifted', async () => {
    const { limiter, store } = banning(ten);
    fail(store);
    await expect(limiter.ban({ local: 'k' }, 60_000)).rejects.toBe(store.fault);
    expect((await limiter.consume({ local: 'k' })).reason).toBe('banned');
    await expect(limiter.unban({ local: 'k' })).rejects.toBe(store.fault);
    expect((await limiter.consume({ local: 'k' })).reason).toBe('ok');
  });
});

it('has those who wait ask the store again as soon as it answers anybody', async () => {
  const { limiter, store } = made(local);
  fail(store);
  await limiter.consume({ local: 'k' }, { cost: 10 });
  // For a day, as far as this process knows.
  const waiting = limiter.wait({ local: 'k' });
  await new Promise(setImmediate);
  store.fault = undefined;
  expect((await limiter.consume({ local: 'other' })).source).toBe('store');
  expect(await waiting).toMatchObject({ allowed: true, source: 'store' });
});

it('says as an error, and not as an outage, that a store was called wrongly', async () => {
  const { limiter, store } = made(local);
  store.fault = new TollgateArgumentError('mine');
  await expect(limiter.consume({ local: 'k' })).rejects.toBe(store.fault);
});

it('takes what a store throws at once for a failure, too', async () => {
  const { limiter, store } = made(local);
  store.decide = () => {
    throw new Error('at once');
  };
  expect(await limiter.consume({ local: 'k' })).toMatchObject({
    allowed: true,
    source: 'fallback',
  });
});

describe('a part of a policy', () => {
  const units = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 10 ** 9 }));
  const length = fc.oneof(
    fc.integer({ min: 1, max: 10_000 }),
    fc.integer({ min: 1, max: 34_560 }).map((each) => each * 1_000_000),
  );
  const bucket = fc.record({
    capacity: units,
    rate: fc.integer({ min: 1, max: 10 ** 6 }),
    per: length,
  });
  const window = fc.record({ limit: units, window: length });
  const whole: fc.Arbitrary<Policy | undefined> = fc
    .oneof(
      bucket.map((options) => () => tokenBucket(options)),
      bucket.map((options) => () => leakyBucket(options)),
      window.map((options) => () => fixedWindow(options)),
      window.map((options) => () => slidingWindow(options)),
      window.map(
        ({ limit, ...options }) =>
          () =>
            slidingLog({ limit: limit % 10_000, ...options }),
      ),
      units.map((limit) => () => concurrency({ limit, reserved: { critical: 0.3 } })),
    )
    .map((make) => {
      try {
        return make();
      } catch {
        // Not every plan can be counted.
        return undefined;
      }
    });
  const quotaOf = (policy: Policy): number =>
    'capacity' in policy ? policy.capacity : policy.limit;
  const share = fc.double({ min: 1e-6, max: 1, noNaN: true });

  it('is a policy, of its share rounded up', () => {
    fc.assert(
      fc.property(whole, share, (policy, each) => {
        if (policy === undefined) return;
        const some = partOf(policy, each);
        const quota = quotaOf(policy);
        expect(quotaOf(some)).toBe(quota === 0 ? 0 : Math.max(1, Math.ceil(quota * each - 1e-9)));
        if (!('rate' in policy) || !('rate' in some)) return;
        // Never below the share by more than a part in a thousand, nor above the whole.
        const rate = policy.rate / policy.per;
        expect(some.rate / some.per).toBeLessThanOrEqual(rate * (1 + 1e-9));
        expect(some.rate / some.per).toBeGreaterThanOrEqual(rate * each * 0.998);
      }),
      { numRuns: 3_000 },
    );
  });

  it.each([
    [
      tokenBucket({ capacity: 100, rate: 10, per: '1s' }),
      0.1,
      { capacity: 10, rate: 10, per: 10_000 },
    ],
    [
      tokenBucket({ capacity: 1, rate: 1, per: '300d' }),
      0.1,
      { capacity: 1, rate: 1, per: 34_560_000_000 },
    ],
    [fixedWindow({ limit: 100, window: '1m' }), 0.07, { limit: 7, window: 60_000 }],
    [slidingLog({ limit: 3, window: '1m' }), 0.01, { limit: 1, window: 60_000 }],
  ])('of %o: %d', (policy, each, expected) => {
    expect(partOf(policy, each)).toMatchObject(expected);
  });
});
