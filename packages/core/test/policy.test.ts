import { describe, expect, it, test } from 'vitest';
import {
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  parsePolicy,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';

const MADE: readonly (readonly [made: Policy, data: object])[] = [
  [
    tokenBucket({ capacity: 100, rate: 10, per: '1s' }),
    { algorithm: 'token-bucket', capacity: 100, rate: 10, per: 1_000 },
  ],
  [
    gcra({ rate: 10, per: '1m', burst: 5 }),
    { algorithm: 'token-bucket', capacity: 5, rate: 10, per: 60_000 },
  ],
  [gcra({ rate: 10, per: 250 }), { algorithm: 'token-bucket', capacity: 1, rate: 10, per: 250 }],
  [
    leakyBucket({ capacity: 20, rate: 5, per: '2 s' }),
    { algorithm: 'leaky-bucket', capacity: 20, rate: 5, per: 2_000 },
  ],
  [
    fixedWindow({ limit: 1_000, window: '1d' }),
    { algorithm: 'fixed-window', limit: 1_000, window: 86_400_000 },
  ],
  [
    fixedWindow({ limit: 1_000, window: '1h', spread: true }),
    { algorithm: 'fixed-window', limit: 1_000, window: 3_600_000, spread: true },
  ],
  [
    slidingWindow({ limit: 30, window: 0.5 }),
    { algorithm: 'sliding-window', limit: 30, window: 0.5 },
  ],
  [
    slidingLog({ limit: 10_000, window: '400d' }),
    { algorithm: 'sliding-log', limit: 10_000, window: 34_560_000_000 },
  ],
  [concurrency({ limit: 8 }), { algorithm: 'concurrency', limit: 8, slotTimeout: 60_000 }],
  [
    concurrency({ limit: 8, slotTimeout: '5s', reserved: { critical: 0.25, normal: 0.5 } }),
    {
      algorithm: 'concurrency',
      limit: 8,
      slotTimeout: 5_000,
      reserved: { critical: 0.25, normal: 0.5 },
    },
  ],
];
const named = MADE.map(([made, data]) => ({ name: JSON.stringify(data), made, data }));

describe('a policy', () => {
  test.each(named)('$name is plain data', ({ made, data }) => {
    expect(made).toStrictEqual(data);
    expect(Object.getPrototypeOf(made)).toBe(Object.prototype);
  });

  test.each(named)('$name is frozen to the last part', ({ made }) => {
    expect(Object.isFrozen(made)).toBe(true);
    for (const part of Object.values(made)) expect(Object.isFrozen(part)).toBe(true);
  });

  test.each(named)('$name is the same after JSON', ({ made, data }) => {
    const read: unknown = JSON.parse(JSON.stringify(made));
    const parsed = parsePolicy(read);
    expect(parsed).toStrictEqual(data);
    expect(Object.isFrozen(parsed)).toBe(true);
    expect(parsePolicy(JSON.parse(JSON.stringify(parsed)))).toStrictEqual(data);
  });

  test.each(named)('$name is parsed once', ({ made }) => expect(parsePolicy(made)).toBe(made));
});

describe('written by hand', () => {
  test.each([
    [
      { algorithm: 'token-bucket', capacity: 3, rate: 1, per: '1h' },
      tokenBucket({ capacity: 3, rate: 1, per: '1h' }),
    ],
    [{ algorithm: 'gcra', rate: 7, per: '1s' }, gcra({ rate: 7, per: '1s' })],
    [{ algorithm: 'gcra', rate: 7, per: '1s', burst: 0 }, gcra({ rate: 7, per: '1s', burst: 0 })],
    [
      { algorithm: 'fixed-window', limit: 5, window: '1s', spread: false },
      fixedWindow({ limit: 5, window: 1_000 }),
    ],
    [{ algorithm: 'concurrency', limit: 2 }, concurrency({ limit: 2, slotTimeout: '60s' })],
    [
      { limit: 5, algorithm: 'sliding-log', window: '1 m' },
      slidingLog({ limit: 5, window: '60s' }),
    ],
  ])('%j is brought to the normal form', (input, normal) => {
    const before = structuredClone(input);
    expect(parsePolicy(input)).toStrictEqual(normal);
    expect(input).toStrictEqual(before);
    expect(Object.isFrozen(input)).toBe(false);
  });

  it('stays as it was parsed when the original is changed', () => {
    const input = { algorithm: 'concurrency', limit: 4, reserved: { critical: 0.5 } };
    const policy = parsePolicy(input);
    input.limit = 400;
    input.reserved.critical = 0.9;
    expect(policy).toMatchObject({ limit: 4, reserved: { critical: 0.5 } });
    expect(parsePolicy(input)).toMatchObject({ limit: 400, reserved: { critical: 0.9 } });
  });

  it('does not change options that a constructor is given', () => {
    const options = Object.freeze({ limit: 5, window: '1s' });
    expect(fixedWindow(options)).toMatchObject({ limit: 5, window: 1_000 });
    expect(options).toStrictEqual({ limit: 5, window: '1s' });
  });
});

describe('numbers', () => {
  test.each([
    ['a capacity', () => tokenBucket({ capacity: 0, rate: 1, per: '1s' })],
    ['a queue', () => leakyBucket({ capacity: 0, rate: 1, per: '1s' })],
    ['a burst', () => gcra({ burst: 0, rate: 1, per: '1s' })],
    ['a fixed window', () => fixedWindow({ limit: 0, window: '1s' })],
    ['a sliding window', () => slidingWindow({ limit: 0, window: '1s' })],
    ['a log', () => slidingLog({ limit: 0, window: '1s' })],
    ['slots', () => concurrency({ limit: 0 })],
  ])('0 is legal for %s', (_, make) => {
    const policy = make();
    expect('capacity' in policy ? policy.capacity : policy.limit).toBe(0);
  });

  test.each([
    ['123,457 a month', () => tokenBucket({ capacity: 123_457, rate: 123_457, per: '30d' })],
    ['10^9 a month', () => tokenBucket({ capacity: 1e9, rate: 1e9, per: '30d' })],
    ['10^9 a month, queued', () => leakyBucket({ capacity: 1e9, rate: 1e9, per: '30d' })],
    ['999,983 a year', () => gcra({ burst: 999_983, rate: 999_983, per: '365d' })],
    ['10^12 in a window', () => fixedWindow({ limit: 1e12, window: '30d' })],
    ['123,457 in a sliding month', () => slidingWindow({ limit: 123_457, window: '30d' })],
    ['10^9 in a sliding month', () => slidingWindow({ limit: 1e9, window: '30d' })],
    ['10^6 a second', () => tokenBucket({ capacity: 1e6, rate: 1e6, per: '1s' })],
    ['a million a microsecond', () => tokenBucket({ capacity: 1e6, rate: 1e6, per: 0.001 })],
    ['one in 400 days', () => gcra({ rate: 1, per: '400d' })],
  ])('%s can be counted', (_, make) => expect(make()).toBeTypeOf('object'));

  test.each([
    ['capacity', () => tokenBucket({ capacity: 2 ** 50, rate: 999_983, per: '400d' })],
    ['capacity', () => leakyBucket({ capacity: 2 ** 53 - 1, rate: 2, per: '3d' })],
    ['capacity', () => tokenBucket({ capacity: 1_000, rate: 1, per: '400d' })],
    ['limit', () => slidingWindow({ limit: 2 ** 50, window: '30d' })],
    ['limit', () => slidingWindow({ limit: 1e9, window: 2_592_000_000.001 })],
  ])('what fits at no tick names its %s and the mend', (path, make) => {
    const mend = new RegExp(`^${path}: .* cannot be counted exactly.*; lower the ${path} or use`);
    expect(make).toThrow(mend);
  });
});
