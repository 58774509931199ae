import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { nextSeed } from '../../../test/seed.ts';
import { type Deadline, Deadlines } from '../src/redis/deadlines.ts';
import { pass, stopTime } from './fake-time.ts';

beforeEach(() => {
  stopTime();
  // This one is not the global one, which stands still.
  vi.spyOn(performance, 'now').mockImplementation(() => Date.now());
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Moves the time by a millisecond. What is over is told once what has arrived was read. */
async function tick(): Promise<void> {
  await pass(1);
  await setImmediate();
}

test('each is told when it is over, in whatever order they were added, and none that was removed', async () => {
  const plan = fc.record({
    addedAt: fc.nat({ max: 40 }),
    lasts: fc.integer({ min: 1, max: 30 }),
    removedAfter: fc.option(fc.nat({ max: 29 }), { nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(plan, { maxLength: 20 }), async (plans) => {
      const deadlines = new Deadlines();
      const start = performance.now();
      const added = new Map<number, Deadline>();
      const over = new Map<number, number>();
      for (let now = 0; now <= 72; now++) {
        for (const [index, { addedAt, lasts, removedAfter = Infinity }] of plans.entries()) {
          if (now === addedAt) {
            const expired = (): unknown => over.set(index, performance.now() - start);
            added.set(index, deadlines.add(start + addedAt + lasts, expired));
          }
          const deadline = added.get(index);
          if (now === addedAt + removedAfter && deadline?.isOver === false) {
            deadlines.remove(deadline);
          }
        }
        expect(vi.getTimerCount()).toBeLessThanOrEqual(1);
        await tick();
      }
      for (const [index, { addedAt, lasts, removedAfter = Infinity }] of plans.entries()) {
        expect(over.get(index)).toBe(removedAfter < lasts ? undefined : addedAt + lasts);
        expect(added.get(index)?.isOver).toBe(removedAfter >= lasts);
      }
      expect(vi.getTimerCount()).toBe(0);
    }),
    { numRuns: 60, seed: nextSeed() },
  );
});

test('a deadline that was told of another may add one', async () => {
  const deadlines = new Deadlines();
  const over: string[] = [];
  const start = performance.now();
  deadlines.add(start + 5, () => {
    over.push('first');
    deadlines.add(start + 8, () => over.push('second'));
  });
  for (let now = 0; now < 10; now++) await tick();
  expect(over).toEqual(['first', 'second']);
});
