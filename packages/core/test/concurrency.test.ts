import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Decision } from '../src/decision.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import { concurrency, type ConcurrencyOptions, fixedWindow } from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { pass, stoppedStore, stopTime } from './fake-time.ts';
import { HandClock } from './hand-clock.ts';
import { PromisedStore } from './promised-store.ts';

beforeEach(stopTime);
afterEach(() => void vi.useRealTimers());

function limiterOf(options: ConcurrencyOptions, store = stoppedStore()): Limiter<MemoryStore> {
  return createLimiter({ store, limits: [{ name: 'jobs', policy: concurrency(options) }] });
}

const jobs = 'a';
const inFlight = (limiter: Limiter<MemoryStore>): number => {
  const { limit, remaining } = limiter.peek({ jobs });
  return limit - remaining;
};

describe('slots', () => {
  it('are taken one by one, and refused when there are no more', () => {
    const limiter = limiterOf({ limit: 3, slotTimeout: '60s' });
    const held = [1, 2, 3].map(() => limiter.consume({ jobs }));
    expect(held.map(({ remaining }) => remaining)).toEqual([2, 1, 0]);
    const refused = limiter.consume({ jobs });
    expect(refused).toMatchObject({ allowed: false, reason: 'limited', limit: 3, remaining: 0 });
    expect(refused).toMatchObject({ retryAfterMs: 60_000, delayMs: 0 });
    expect(limiter.consume({ jobs: 'b' }).allowed).toBe(true);
    limiter.close();
  });

  it('come back when they are released, each once', async () => {
    const limiter = limiterOf({ limit: 2 });
    const [first, second] = [limiter.consume({ jobs }), limiter.consume({ jobs })];
    expect(first.release()).toBeUndefined();
    expect(inFlight(limiter)).toBe(1);
    for (let i = 0; i < 3; i++) await first.release();
    expect(inFlight(limiter)).toBe(1);
    await second.release();
    expect(limiter.peek({ jobs })).toMatchObject({ remaining: 2, resetAfterMs: 0 });
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are not given to a request that is refused, nor freed by it', async () => {
    const limiter = limiterOf({ limit: 1 });
    const held = limiter.consume({ jobs });
    const refused = limiter.consume({ jobs });
    await refused.release();
    expect(inFlight(limiter)).toBe(1);
    await limiter.peek({ jobs }).release();
    expect(inFlight(limiter)).toBe(1);
    await held.release();
    expect(inFlight(limiter)).toBe(0);
  });

  it('are left alone by a cost of 0 and by a number for all', async () => {
    const limiter = limiterOf({ limit: 5 });
    expect(limiter.consume({ jobs }, { cost: { jobs: 0 } })).toMatchObject({ remaining: 5 });
    const held = limiter.consume({ jobs }, { cost: 4 });
    expect(held).toMatchObject({ remaining: 4, binding: { cost: 1 } });
    await held.release();
    expect(inFlight(limiter)).toBe(0);
  });

  it('are as many as the limit, through any number of requests', async () => {
    const limiter = limiterOf({ limit: 5 });
    const held: Decision[] = [];
    for (let i = 0; i < 2_000; i++) {
      const decision = limiter.consume({ jobs });
      expect(decision.allowed).toBe(held.length < 5);
      if (decision.allowed) held.push(decision);
      if ((i * 7) % 3 === 0)
        await held.splice((i * 13) % Math.max(1, held.length), 1)[0]?.release();
      expect(inFlight(limiter)).toBe(held.length);
    }
    for (const decision of held) await decision.release();
    expect(inFlight(limiter)).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are kept by a lowered limit until they are released', async () => {
    const limiter = limiterOf({ limit: 4 });
    const held = [1, 2, 3].map(() => limiter.consume({ jobs }));
    limiter.update('jobs', concurrency({ limit: 2 }));
    expect(limiter.consume({ jobs })).toMatchObject({ allowed: false, remaining: 0 });
    await held[0]?.release();
    expect(limiter.consume({ jobs }).allowed).toBe(false);
    await held[1]?.release();
    expect(limiter.consume({ jobs })).toMatchObject({ allowed: true, remaining: 0 });
    limiter.close();
  });
});

describe('the slot of one who crashed', () => {
  it('is free after slotTimeout, to the microsecond', () => {
    const clock = new HandClock();
    // The timer that would renew it stands still, as if the process were gone.
    const limiter = limiterOf({ limit: 1, slotTimeout: 1_500 }, memoryStore({ clock: clock.read }));
    limiter.consume({ jobs });
    clock.advance(1_499.999);
    expect(limiter.consume({ jobs })).toMatchObject({ allowed: false, retryAfterMs: 0.001 });
    clock.advance(0.001);
    expect(limiter.peek({ jobs })).toMatchObject({ remaining: 1, resetAfterMs: 0 });
    expect(limiter.consume({ jobs }).allowed).toBe(true);
    limiter.close();
  });

  it('is not freed a second time when its release comes late', async () => {
    const limiter = limiterOf({ limit: 1, slotTimeout: '60s' });
    const lost = limiter.consume({ jobs });
    vi.clearAllTimers();
    await pass(60_000);
    const next = limiter.consume({ jobs });
    expect(next.allowed).toBe(true);
    await lost.release();
    expect(inFlight(limiter)).toBe(1);
    limiter.close();
  });
});

describe('a slot that is held', () => {
  it('is renewed for as long as the request lives', async () => {
    const limiter = limiterOf({ limit: 1, slotTimeout: '3s' });
    const held = limiter.consume({ jobs });
    for (let second = 0; second < 60; second++) {
      await pass(1_000);
      expect(limiter.consume({ jobs }).allowed).toBe(false);
    }
    await held.release();
    expect(limiter.consume({ jobs }).allowed).toBe(true);
    limiter.close();
  });

  it('costs one timer together with all others, which keeps no process alive', async () => {
    const timers = vi.spyOn(globalThis, 'setInterval');
    const limiter = limiterOf({ limit: 1_000, slotTimeout: '3s' });
    expect(vi.getTimerCount()).toBe(0);
    const held = Array.from({ length: 500 }, () => limiter.consume({ jobs }));
    expect(vi.getTimerCount()).toBe(1);
    for (const { value } of timers.mock.results) {
      expect((value as NodeJS.Timeout).hasRef()).toBe(false);
    }
    for (const decision of held.slice(1)) await decision.release();
    expect(vi.getTimerCount()).toBe(1);
    await held[0]?.release();
    expect(vi.getTimerCount()).toBe(0);
    timers.mockRestore();
  });

  it('is renewed at the pace of the shortest timeout', async () => {
    const limiter = createLimiter({
      store: stoppedStore(),
      limits: [
        { name: 'slow', policy: concurrency({ limit: 1, slotTimeout: '1h' }) },
        { name: 'fast', policy: concurrency({ limit: 1, slotTimeout: '300ms' }) },
      ],
    });
    limiter.consume({ slow: 'a' });
    await pass(60_000);
    limiter.consume({ fast: 'a' });
    await pass(10_000);
    expect(limiter.peek({ fast: 'a' }).allowed).toBe(false);
    await pass(3_600_000);
    expect(limiter.peek({ slow: 'a', fast: 'a' }).verdicts.map(({ allowed }) => allowed)).toEqual([
      false,
      false,
    ]);
    limiter.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('may have a timeout longer than a timer can be', async () => {
    const timers = vi.spyOn(globalThis, 'setInterval');
    const limiter = limiterOf({ limit: 1, slotTimeout: '400d' });
    limiter.consume({ jobs });
    for (const [, ms] of timers.mock.calls) expect(ms).toBeLessThan(2 ** 31);
    await pass(500 * 86_400_000);
    expect(limiter.peek({ jobs }).allowed).toBe(false);
    limiter.close();
    timers.mockRestore();
  });

  it('is given up when the store forgot it', async () => {
    const limiter = limiterOf({ limit: 1, slotTimeout: '3s' });
    limiter.consume({ jobs });
    limiter.reset({ jobs });
    await pass(1_000);
    expect(vi.getTimerCount()).toBe(0);
    expect(inFlight(limiter)).toBe(0);
  });

  it('is released once where answers are promises, too', async () => {
    const store = new PromisedStore();
    const limiter = createLimiter({
      store,
      limits: [{ name: 'jobs', policy: concurrency({ limit: 1 }) }],
    });
    const held = await limiter.consume({ jobs });
    await Promise.all([held.release(), held.release()]);
    await held.release();
    expect(store.asked).toEqual(['consume', 'correct']);
  });

  it('outlives a store that fails for a moment', async () => {
    const store = new PromisedStore({ clock: () => Date.now() * 1_000 });
    const errors: unknown[] = [];
    const limiter = createLimiter({
      store,
      limits: [{ name: 'jobs', policy: concurrency({ limit: 1, slotTimeout: '3s' }) }],
      onStoreError: (error) => errors.push(error),
    });
    await limiter.consume({ jobs });
    store.fault = new Error('gone');
    await pass(1_100);
    store.fault = undefined;
    await pass(5_000);
    expect(errors).toHaveLength(1);
    expect((await limiter.peek({ jobs })).allowed).toBe(false);
    await limiter.close();
  });
});

it('is all or nothing with other limits', async () => {
  const limiter = createLimiter({
    store: stoppedStore(),
    limits: [
      { name: 'ip', policy: fixedWindow({ limit: 1, window: '1h' }) },
      { name: 'jobs', policy: concurrency({ limit: 1 }) },
    ],
  });
  const keys = { ip: 'a', jobs: 'a' };
  const first = limiter.consume(keys);
  await first.release();
  expect(limiter.consume(keys)).toMatchObject({ allowed: false, binding: { name: 'ip' } });
  expect(limiter.peek({ jobs: 'a' }).remaining).toBe(1);
  limiter.consume({ jobs: 'a' });
  expect(limiter.consume({ ip: 'b', jobs: 'a' }).allowed).toBe(false);
  expect(limiter.peek({ ip: 'b' }).remaining).toBe(1);
  limiter.close();
});
