import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HeavyHitters } from '../src/refusals/heavy-hitters.ts';

describe('heavy hitters', () => {
  const keys = fc.array(fc.nat(30).map((n) => `k${Math.floor(n ** 2 / 30)}`));

  it('are never counted too low, and too high by no more than is said', () => {
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: 40 }), (seen, capacity) => {
        const sketch = new HeavyHitters(capacity);
        const exact = new Map<string, number>();
        for (const [time, key] of seen.entries()) {
          sketch.count(key, time);
          exact.set(key, (exact.get(key) ?? 0) + 1);
        }
        const top = sketch.top(capacity);
        for (const { key, count, atLeast } of top) {
          const times = exact.get(key) ?? 0;
          expect(atLeast).toBeLessThanOrEqual(times);
          expect(count).toBeGreaterThanOrEqual(times);
          expect(count - atLeast).toBeLessThanOrEqual(seen.length / capacity);
        }
        for (const [key, times] of exact) {
          if (times > seen.length / capacity) expect(top.map((each) => each.key)).toContain(key);
        }
        expect(sketch.isExact).toBe(exact.size <= capacity);
        const counts = top.map(({ count }) => count);
        expect(counts).toEqual(counts.toSorted((a, b) => b - a));
      }),
    );
  });
});
