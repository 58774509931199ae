import {
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
} from '@tollgate/core';
import { expect, it } from 'vitest';
import { safeMessage } from '../src/state.ts';
import { describePolicy } from '../src/words.ts';

it.each<[Policy, string]>([
  [gcra({ rate: 5, per: '1s', burst: 20 }), 'Token bucket: 20 at once, then 5 per second'],
  [
    leakyBucket({ capacity: 10, rate: 3, per: '250ms' }),
    'Leaky bucket: 10 in the queue, 3 per 250 ms leave it',
  ],
  [fixedWindow({ limit: 1_000_000, window: '30d' }), 'Fixed window: 1,000,000 per 30 days'],
  [slidingWindow({ limit: 300, window: '15m' }), 'Sliding window: 300 per 15 minutes'],
  [slidingLog({ limit: 5, window: 1_500 }), 'Sliding log: 5 per 1,500 ms'],
  [concurrency({ limit: 10 }), 'Concurrency: 10 in flight'],
  [
    concurrency({ limit: 10, reserved: { critical: 0.07 } }),
    'Concurrency: 10 in flight, 7 % kept for critical',
  ],
])('says %o in words', (policy, words) => {
  const { algorithm, numbers } = describePolicy(policy);
  expect(`${algorithm}: ${numbers}`).toBe(words);
});

it('leaves passwords out of what an error says', () => {
  const error = new Error('connect to redis://ops:hunter@2@10.0.0.1:6379 and rediss://:x@b failed');
  expect(safeMessage(error)).toBe('connect to redis://10.0.0.1:6379 and rediss://b failed');
  expect(safeMessage('a'.repeat(1_000))).toHaveLength(300);
});
