import { describe, expect, it, test } from 'vitest';
import { TollgateConfigError } from '../src/errors.ts';
import {
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  parsePolicy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';

/** Constructors as plain JavaScript calls them: with anything. */
type Anything = (options: unknown) => object;
const CONSTRUCTORS = {
  tokenBucket: tokenBucket as Anything,
  leakyBucket: leakyBucket as Anything,
  gcra: gcra as Anything,
  fixedWindow: fixedWindow as Anything,
  slidingWindow: slidingWindow as Anything,
  slidingLog: slidingLog as Anything,
  concurrency: concurrency as Anything,
};
const SOUND = {
  tokenBucket: { capacity: 10, rate: 1, per: '1s' },
  leakyBucket: { capacity: 10, rate: 1, per: '1s' },
  gcra: { rate: 10, per: '1s', burst: 2 },
  fixedWindow: { limit: 10, window: '1s' },
  slidingWindow: { limit: 10, window: '1s' },
  slidingLog: { limit: 10, window: '1s' },
  concurrency: { limit: 10, slotTimeout: '1s' },
};
type Name = keyof typeof SOUND;
const names = Object.keys(SOUND) as Name[];

function mistake(make: () => unknown): TollgateConfigError {
  try {
    make();
  } catch (error) {
    expect(error).toBeInstanceOf(TollgateConfigError);
    expect(error).toBeInstanceOf(TypeError);
    expect(error).toMatchObject({ name: 'TollgateConfigError', code: 'TOLLGATE_CONFIG' });
    return error as TollgateConfigError;
  }
  throw new Error('nothing was thrown');
}

const UNITS = ['capacity', 'limit', 'burst'] as const;
const DURATIONS = ['per', 'window', 'slotTimeout'] as const;
const has = (name: Name, option: string): boolean => Object.hasOwn(SOUND[name], option);
const pairs = (options: readonly string[]): { name: Name; option: string }[] =>
  names.flatMap((name) =>
    options.filter((option) => has(name, option)).map((option) => ({ name, option })),
  );

describe.each(pairs(UNITS))('$name: $option', ({ name, option }) => {
  test.each([
    { value: Number.NaN, expected: 'a number' },
    { value: Infinity, expected: 'a number' },
    { value: '10', expected: 'a number' },
    { value: null, expected: 'a number' },
    { value: true, expected: 'a number' },
    { value: [10], expected: 'a number' },
    { value: 10n, expected: 'a number' },
    { value: -1, expected: 'a number of 0 or more' },
    { value: 1.5, expected: 'a whole number' },
    { value: 2 ** 53, expected: 'a number of at most' },
  ])('$value is a mistake', ({ value, expected }) => {
    const error = mistake(() => CONSTRUCTORS[name]({ ...SOUND[name], [option]: value }));
    expect(error.path).toBe(option);
    expect(error.message).toContain(`${option}: expected ${expected}`);
    expect(error.message).toMatch(/, got /);
  });
});

describe.each(pairs(['rate']))('$name: $option', ({ name }) => {
  test.each([
    { value: 0, expected: 'a number of 1 or more' },
    { value: -3, expected: 'a number of 1 or more' },
    { value: 0.5, expected: 'a whole number' },
    { value: '1', expected: 'a number' },
    { value: Number.NaN, expected: 'a number' },
    { value: undefined, expected: 'a number' },
  ])('$value is a mistake', ({ value, expected }) => {
    const error = mistake(() => CONSTRUCTORS[name]({ ...SOUND[name], rate: value }));
    expect(error.path).toBe('rate');
    expect(error.message).toContain(`expected ${expected}`);
  });
});

describe.each(pairs(DURATIONS))('$name: $option', ({ name, option }) => {
  test.each([
    { value: 0, expected: 'a duration above 0' },
    { value: '0ms', expected: 'a duration above 0' },
    { value: -5, expected: 'a duration above 0' },
    { value: '401d', expected: 'at most 400 days' },
    { value: 1e12, expected: 'at most 400 days' },
    { value: Number.NaN, expected: 'a duration, a number of milliseconds or text like "10s"' },
    { value: '1 week', expected: 'a duration, a number of milliseconds or text like "10s"' },
    { value: null, expected: 'a duration, a number of milliseconds or text like "10s"' },
    { value: {}, expected: 'a duration, a number of milliseconds or text like "10s"' },
    { value: 1 / 3, expected: 'a whole number of microseconds' },
  ])('$value is a mistake', ({ value, expected }) => {
    const error = mistake(() => CONSTRUCTORS[name]({ ...SOUND[name], [option]: value }));
    expect(error.path).toBe(option);
    expect(error.message).toContain(`expected ${expected}`);
  });
});

describe('an option of another library', () => {
  test.each([
    { name: 'tokenBucket', wrong: { max: 5, rate: 1, per: 1 }, path: 'max', ours: 'capacity' },
    { name: 'tokenBucket', wrong: { points: 5, duration: 1 }, path: 'points', ours: 'capacity' },
    {
      name: 'tokenBucket',
      wrong: { capacity: 1, rate: 1, interval: 1 },
      path: 'interval',
      ours: 'per',
    },
    { name: 'tokenBucket', wrong: { limit: 1, window: 1 }, path: 'limit', ours: 'capacity' },
    { name: 'gcra', wrong: { max: 5, rate: 1, per: 1 }, path: 'max', ours: 'burst' },
    { name: 'gcra', wrong: { capacity: 5, rate: 1, per: 1 }, path: 'capacity', ours: 'burst' },
    { name: 'fixedWindow', wrong: { max: 5, windowMs: 1 }, path: 'max', ours: 'limit' },
    { name: 'fixedWindow', wrong: { limit: 5, windowMs: 1 }, path: 'windowMs', ours: 'window' },
    { name: 'fixedWindow', wrong: { limit: 5, timeWindow: 1 }, path: 'timeWindow', ours: 'window' },
    { name: 'slidingWindow', wrong: { points: 5, window: 1 }, path: 'points', ours: 'limit' },
    { name: 'slidingLog', wrong: { limit: 5, duration: 1 }, path: 'duration', ours: 'window' },
    {
      name: 'leakyBucket',
      wrong: { capacity: 5, rate: 1, window: 1 },
      path: 'window',
      ours: 'per',
    },
    { name: 'concurrency', wrong: { maxConcurrent: 5 }, path: 'maxConcurrent', ours: 'limit' },
    { name: 'concurrency', wrong: { limit: 5, timeout: 1 }, path: 'timeout', ours: 'slotTimeout' },
    {
      name: 'fixedWindow',
      wrong: { limit: 5, window: 1, keyGenerator: 1 },
      path: 'keyGenerator',
      ours: 'by',
    },
  ] as const)('$path is called $ours by $name', ({ name, wrong, path, ours }) => {
    const error = mistake(() => CONSTRUCTORS[name](wrong));
    expect(error.path).toBe(path);
    expect(error.message).toContain(`unknown option; Tollgate calls it \`${ours}\``);
  });

  it.each(names)('or of nobody is told which there are: %s', (name) => {
    for (const option of ['bogus', 'toString', 'constructor', 'Capacity', 'maxx']) {
      const error = mistake(() => CONSTRUCTORS[name]({ ...SOUND[name], [option]: 1 }));
      expect(error.path).toBe(option);
      for (const known of Object.keys(SOUND[name])) expect(error.message).toContain(known);
    }
  });
});

describe('a missing option', () => {
  it.each(names)('is named: %s', (name) => {
    for (const option of Object.keys(SOUND[name])) {
      if (option === 'burst' || option === 'slotTimeout') continue;
      const error = mistake(() => CONSTRUCTORS[name]({ ...SOUND[name], [option]: undefined }));
      expect(error.path).toBe(option);
      expect(error.message).toContain(`${option}: missing; expected a`);
    }
  });

  it.each(names)('or options that are none: %s', (name) => {
    for (const options of [undefined, null, 'fast', 10, true, () => 1]) {
      expect(mistake(() => CONSTRUCTORS[name](options)).message).toContain(
        'expected the options of',
      );
    }
    expect(mistake(() => CONSTRUCTORS[name]([])).message).toContain('missing');
  });
});

describe('a particular of', () => {
  test.each([
    [() => slidingLog({ limit: 10_001, window: '1s' }), 'limit', 'at most 10000, got 10001'],
    [() => CONSTRUCTORS.fixedWindow({ limit: 1, window: 1, spread: 'yes' }), 'spread', 'a boolean'],
    [
      () => concurrency({ limit: 1, reserved: { critical: 1 } }),
      'reserved.critical',
      'below 1, got 1',
    ],
    [() => concurrency({ limit: 1, reserved: { a: -0.1 } }), 'reserved.a', '0 or more, got -0.1'],
    [() => concurrency({ limit: 1, reserved: { a: Number.NaN } }), 'reserved.a', 'got NaN'],
    [
      () => concurrency({ limit: 9, reserved: { a: 0.5, b: 0.5 } }),
      'reserved',
      'the shares add up to 1; their sum must stay below 1',
    ],
    [() => CONSTRUCTORS.concurrency({ limit: 1, reserved: 0.2 }), 'reserved', 'got 0.2'],
    [() => CONSTRUCTORS.concurrency({ limit: 1, reserved: { a: '20%' } }), 'reserved.a', '"20%"'],
  ])('an algorithm is checked: %#', (make, path, message) => {
    const error = mistake(make);
    expect(error.path).toBe(path);
    expect(error.message).toContain(message);
  });
});

describe('parsePolicy', () => {
  const all = /expected one of token-bucket, leaky-bucket, gcra, fixed-window, .*concurrency, got /;

  test.each([
    { input: {}, path: 'algorithm', message: all },
    { input: { algorithm: 'bucket' }, path: 'algorithm', message: all },
    { input: { algorithm: 'Token-Bucket' }, path: 'algorithm', message: all },
    { input: { algorithm: 'toString' }, path: 'algorithm', message: all },
    { input: { algorithm: 1 }, path: 'algorithm', message: all },
    { input: 'token-bucket', path: '', message: /expected a policy, such as tokenBucket\(/ },
    { input: null, path: '', message: /expected a policy/ },
    { input: [SOUND.gcra], path: '', message: /expected a policy, .* got an array/ },
    { input: tokenBucket, path: '', message: /expected a policy, .* got a function/ },
    {
      input: { algorithm: 'fixed-window', limit: 1, window: '1 fortnight' },
      path: 'window',
      message: /expected a duration/,
    },
  ])('$input', ({ input, path, message }) => {
    const error = mistake(() => parsePolicy(input));
    expect(error.path).toBe(path);
    expect(error.message).toMatch(message);
    const below = mistake(() => parsePolicy(input, 'plans.gold'));
    expect(below.path).toBe(path === '' ? 'plans.gold' : `plans.gold.${path}`);
    expect(below.message.startsWith(`${below.path}: `)).toBe(true);
  });
});
