import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InOrder } from '../src/log/in-order.ts';
import { Timeline } from '../src/replay/timeline.ts';

describe('a bounded window of order', () => {
  it('sorts what is no further from its place than the window, and keeps the order of equals', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20)), fc.integer({ min: 1, max: 10 }), (jitters, capacity) => {
        const items = jitters.map((jitter, index) => ({ time: index + jitter, index }));
        const left: { time: number; index: number; at: number }[] = [];
        const inOrder = new InOrder<(typeof items)[number]>(capacity, (item, at) =>
          left.push({ ...item, at }),
        );
        for (const item of items) inOrder.push(item, item.time);
        inOrder.flush();
        // Nothing is lost, and time never steps back.
        expect(left.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual(
          items.map((_, i) => i),
        );
        const times = left.map(({ at }) => at);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        expect(left.filter(({ time, at }) => time !== at)).toHaveLength(inOrder.late);
        if (inOrder.late > 0) return;
        const sorted = items.toSorted((a, b) => a.time - b.time || a.index - b.index);
        expect(left.map(({ index }) => index)).toEqual(sorted.map(({ index }) => index));
      }),
    );
  });

  it('is wide enough for a window of disorder', () => {
    const order: number[] = [];
    const inOrder = new InOrder<number>(4, (item) => order.push(item));
    for (const time of [5, 4, 3, 2, 1, 10, 9, 8, 0]) inOrder.push(time, time);
    inOrder.flush();
    // 0 came when 4 had left.
    expect(order).toEqual([1, 2, 3, 4, 0, 5, 8, 9, 10]);
    expect(inOrder.late).toBe(1);
  });
});

describe('a timeline', () => {
  it('loses nothing while its buckets grow', () => {
    const steps = fc.array(fc.oneof(fc.nat(5e6), fc.nat(1e9), fc.nat(1e13)), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (gaps) => {
        const timeline = new Timeline(1);
        const times: number[] = [];
        let time = 1_800_000_000_000_000;
        for (const gap of gaps) {
          time += gap;
          times.push(time);
          timeline.add(0, timeline.bucket(time));
        }
        const expected = Array.from({ length: timeline.length }, () => 0);
        for (const each of times) {
          const bucket = Math.floor((each - timeline.from) / timeline.width);
          expected[bucket] = (expected[bucket] ?? NaN) + 1;
        }
        expect(timeline.counts(0)).toEqual(expected);
        expect(timeline.length).toBeLessThanOrEqual(240);
        expect(timeline.from % timeline.width).toBe(0);
      }),
    );
  });
});
