import {
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';

type Maker = (quota: number, per?: string) => Policy;

/** Every algorithm that counts units: `quota` of them at once, and as many again per `per`. */
export const COUNTING: readonly (readonly [algorithm: string, make: Maker])[] = [
  ['token bucket', (quota, per = '60s') => tokenBucket({ capacity: quota, rate: quota || 1, per })],
  ['gcra', (quota, per = '60s') => gcra({ burst: quota, rate: quota || 1, per })],
  ['leaky bucket', (quota, per = '60s') => leakyBucket({ capacity: quota, rate: quota || 1, per })],
  ['fixed window', (quota, per = '60s') => fixedWindow({ limit: quota, window: per })],
  [
    'spread window',
    (quota, per = '60s') => fixedWindow({ limit: quota, window: per, spread: true }),
  ],
  ['sliding window', (quota, per = '60s') => slidingWindow({ limit: quota, window: per })],
  ['sliding log', (quota, per = '60s') => slidingLog({ limit: quota, window: per })],
];
