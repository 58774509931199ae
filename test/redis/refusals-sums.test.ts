import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { HeavyHitters } from '../../packages/core/src/refusals/heavy-hitters.ts';
import { tallyOf } from '../../packages/core/src/refusals/recent.ts';
import { PATIENT, storeAt } from './limiters.ts';
import { RedisServer } from './server.ts';

const HOUR_MS = 3_600_000;

let server: RedisServer;

beforeAll(async () => {
  server = await RedisServer.start();
});

afterAll(() => server?.stop());

/** Few keys of many, of which a process loses none, or a flood. */
const few = fc.nat(9).chain((band) =>
  fc.array(
    fc.nat(59).map((n) => band * 60 + n),
    { minLength: 1, maxLength: 150, size: 'max' },
  ),
);
const flood = fc.array(fc.nat(999), { minLength: 300, maxLength: 800, size: 'max' });
/** What each of some processes counts until it hands on, and how many hours later that is. */
const rounds = fc.array(fc.tuple(fc.constantFrom(0, 0, 0, 1), fc.oneof(few, few, few, flood)), {
  minLength: 2,
  maxLength: 20,
  size: 'max',
});

it('the fleet’s list says no more than there was, and no less than it admits', async () => {
  let run = 0;
  let lost = 0;
  await fc.assert(
    fc.asyncProperty(rounds, async (all) => {
      let hour = 500_000;
      const store = storeAt(server.port, {
        ...PATIENT,
        prefix: `run-${run++}:`,
        clock: () => hour * HOUR_MS * 1_000,
      });
      const exact = new Map<string, number>();
      for (const [hours, keys] of all) {
        hour += hours;
        const sketch = new HeavyHitters(100);
        for (const each of keys.map(String)) {
          sketch.count(each, hour * HOUR_MS);
          exact.set(each, (exact.get(each) ?? 0) + 1);
        }
        await store.tally([tallyOf('api', false, sketch, (shown) => shown)]);
      }
      const total = all.reduce((sum, [, keys]) => sum + keys.length, 0);
      const list = await store.mostRefused(['api'], 1_000, 24);
      for (const { key, count, errorBound } of list) {
        const times = exact.get(key) ?? 0;
        expect(count).toBeLessThanOrEqual(times);
        expect(count + errorBound).toBeGreaterThanOrEqual(times);
        expect(errorBound).toBeLessThanOrEqual(0.015 * total);
        if (count < times) lost++;
      }
      const listed = new Set(list.map(({ key }) => key));
      for (const [each, times] of exact) {
        if (times > 0.03 * total) expect(listed).toContain(each);
      }
      if (all.every(([, keys]) => keys.length <= 150) && exact.size <= 200) {
        expect(list.every(({ errorBound }) => errorBound === 0)).toBe(true);
      }
      await store.close();
    }),
    { numRuns: 25 },
  );
  // It is of no use without counters that were taken over.
  expect(lost).toBeGreaterThan(100);
});
