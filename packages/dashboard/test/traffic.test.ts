import { channel } from 'node:diagnostics_channel';
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type Policy,
  tokenBucket,
} from '@tollgate/core';
import { expect, it } from 'vitest';
import { dashboard } from '../src/index.ts';
import { type Outcome, Series, STEPS } from '../src/series.ts';
import { Traffic } from '../src/traffic.ts';

it('keeps the last 120 steps, the oldest first', () => {
  const series = new Series(1_000);
  const startMs = 1_800_000_000_000;
  for (let second = 0; second < 500; second++) {
    for (let i = 0; i < second % 7; i++) series.add('admitted', startMs + second * 1_000 + i);
  }
  const { admitted, refused } = series.read(startMs + 499_999);
  expect(admitted).toEqual(Array.from({ length: STEPS }, (_, i) => (500 - STEPS + i) % 7));
  expect(refused).toEqual(Array.from({ length: STEPS }, () => 0));
});

it.each([
  [0, 119, 3],
  [999, 119, 3],
  [1_000, 118, 3],
  [60_000, 59, 3],
  [119_000, 0, 3],
  [120_000, 0, 0],
  [119_999, 0, 3],
  [86_400_000, 0, 0],
])('after %i ms a count stands at step %i', (passedMs, step, value) => {
  const series = new Series(1_000);
  const outcomes: Outcome[] = ['admitted', 'refused', 'elsewhere'];
  for (const outcome of outcomes) {
    for (let i = 0; i < 3; i++) series.add(outcome, 7_777_000);
  }
  const counts = series.read(7_777_000 + passedMs);
  for (const outcome of outcomes) {
    expect(counts[outcome][step]).toBe(value);
    expect(counts[outcome].reduce((a, b) => a + b)).toBe(value);
  }
});

it('counts into the newest step what a clock that stepped back would put before', () => {
  const series = new Series(1_000);
  series.add('admitted', 50_000);
  series.add('admitted', 20_000);
  expect(series.read(50_000).admitted.at(-1)).toBe(2);
});

it('says when the oldest step began', () => {
  let now = 1_800_000_000_250;
  const traffic = new Traffic(() => now);
  expect(traffic.ageMs('2m')).toBe(119_250);
  now += 749;
  expect(traffic.ageMs('2m')).toBe(119_999);
  now += 1;
  expect(traffic.ageMs('2m')).toBe(119_000);
});

function refusal(key: string, policy: Policy = fixedWindow({ limit: 0, window: '1s' })): Decision {
  const limiter = createLimiter({ limits: [{ name: 'caller', policy }] });
  return limiter.consume({ caller: key });
}

it('forgets the keys refused longest ago, and policies beyond a few', () => {
  const traffic = new Traffic(() => 0);
  for (let i = 0; i < 600; i++) {
    traffic.count(
      refusal(`caller ${i}`, tokenBucket({ capacity: 0, rate: 1 + (i % 20), per: '1s' })),
    );
  }
  const { policies } = traffic.of('caller');
  expect(policies).toHaveLength(8);
  expect(traffic.of('caller').policyOf('caller 99')).toBeUndefined();
  expect(traffic.of('caller').policyOf('caller 100')).toMatchObject({ rate: 1 });
  expect(traffic.of('caller').policyOf('caller 599')).toMatchObject({ rate: 20 });
});

it('listens from when it is made until it is closed', () => {
  const decisions = channel('tollgate:decision');
  const limits = [{ name: 'caller', policy: fixedWindow({ limit: 5, window: '1h' }) }];
  const limiter = createLimiter({ limits });
  expect(decisions.hasSubscribers).toBe(false);
  const page = dashboard({ limiter }, { authorize: () => true });
  expect(decisions.hasSubscribers).toBe(true);
  page.close();
  expect(decisions.hasSubscribers).toBe(false);
});
