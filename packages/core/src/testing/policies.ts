import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../policy.ts';
import type { Law, Trial } from './trial.ts';

/** Seven seconds and a microsecond, so that a time that is rounded to milliseconds shows. */
const WINDOW_MS = 7_000.001;
/** A unit comes back in 8,571,428.57… µs. */
const RATE = { rate: 7, per: '60s' } as const;

type Maker = (quota: number) => Policy;
type Kind = readonly [name: string, make: Maker];

/** Every algorithm that counts units, with `quota` of them at once. */
export const COUNTING: readonly Kind[] = [
  ['token-bucket', (quota) => tokenBucket({ capacity: quota, ...RATE })],
  ['leaky-bucket', (quota) => leakyBucket({ capacity: quota, ...RATE })],
  ['fixed-window', (quota) => fixedWindow({ limit: quota, window: WINDOW_MS })],
  [
    'fixed-window, spread',
    (quota) => fixedWindow({ limit: quota, window: WINDOW_MS, spread: true }),
  ],
  ['sliding-window', (quota) => slidingWindow({ limit: quota, window: WINDOW_MS })],
  ['sliding-log', (quota) => slidingLog({ limit: quota, window: WINDOW_MS })],
];

/** Every algorithm. Slots last longer than a test, so that their renewal by a timer never meddles. */
export const EVERY: readonly Kind[] = [
  ...COUNTING,
  ['concurrency', (quota) => concurrency({ limit: quota, slotTimeout: 3_600_000.001 })],
];

/** The same law for each of some algorithms. */
export function forEach(
  kinds: readonly Kind[],
  name: string,
  hold: (trial: Trial, make: Maker) => Promise<void>,
): Law[] {
  return kinds.map(([kind, make]) => ({
    name: `${name}: ${kind}`,
    hold: (trial) => hold(trial, make),
  }));
}
