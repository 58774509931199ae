import { describe, expect, it } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter } from '../src/limiter.ts';
import { fixedWindow } from '../src/policy.ts';
import { memoryStore } from '../src/stores/memory.ts';
import { manualClock } from '../src/testing.ts';

describe('a manual clock', () => {
  it('shows integer microseconds since the epoch', () => {
    expect(manualClock(1_500.25)()).toBe(1_500_250);
    expect(new Date(manualClock()() / 1_000).toISOString()).toBe('2026-01-01T00:00:00.000Z');
  });

  it('stands still until it is moved', () => {
    const clock = manualClock(0);
    expect([clock(), clock()]).toEqual([0, 0]);
    clock.advance(0.001);
    expect(clock()).toBe(1);
    clock.advance(10);
    clock.advance(-5);
    expect(clock()).toBe(5_001);
    clock.set(2);
    expect(clock()).toBe(2_000);
  });

  it('adds up fractions without an error', () => {
    const clock = manualClock();
    const start = clock();
    for (let times = 0; times < 1_000; times++) clock.advance(0.1);
    expect(clock() - start).toBe(100_000);
  });

  it.each([Number.NaN, Infinity, '5', undefined, null, -1])('refuses to show %s', (value) => {
    const clock = manualClock(0.5);
    expect(() => clock.set(value as number)).toThrow(TollgateArgumentError);
    expect(() => clock.advance(value as number)).toThrow(TollgateArgumentError);
    if (value !== undefined) {
      expect(() => manualClock(value as number)).toThrow(TollgateArgumentError);
    }
    expect(clock()).toBe(500);
  });

  it('is a clock for a memory store', () => {
    const clock = manualClock();
    const limiter = createLimiter({
      store: memoryStore({ clock }),
      limits: [{ name: 'api', policy: fixedWindow({ limit: 1, window: '1m' }) }],
    });
    expect(limiter.consume({ api: 'a' }).allowed).toBe(true);
    const { retryAfterMs } = limiter.consume({ api: 'a' });
    clock.advance(retryAfterMs - 0.001);
    expect(limiter.consume({ api: 'a' }).allowed).toBe(false);
    clock.advance(0.001);
    expect(limiter.consume({ api: 'a' }).allowed).toBe(true);
  });
});
