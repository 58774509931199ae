import { describe, expect, it, test } from 'vitest';
import { TollgateConfigError } from '../src/errors.ts';
import { createLimiter, type LimiterOptions } from '../src/limiter.ts';
import type { LimitOptions } from '../src/limits.ts';
import { concurrency, fixedWindow, slidingLog, tokenBucket } from '../src/policy.ts';
import { memoryStore } from '../src/stores/memory.ts';

const policy = tokenBucket({ capacity: 10, rate: 1, per: '1s' });
const limit = { name: 'ip', policy };

/** Options as plain JavaScript gives them: with anything. */
function mistake(options: unknown): TollgateConfigError {
  try {
    createLimiter(options as LimiterOptions);
  } catch (error) {
    expect(error).toBeInstanceOf(TollgateConfigError);
    expect(error).toBeInstanceOf(TypeError);
    return error as TollgateConfigError;
  }
  throw new Error('nothing was thrown');
}

function limitMistake(wrong: unknown): TollgateConfigError {
  return mistake({ limits: [limit, wrong] });
}

describe('the options of a limiter', () => {
  test.each([
    { options: undefined, path: '', message: /expected the limiter's options, got undefined/ },
    { options: null, path: '', message: /expected the limiter's options, got null/ },
    { options: {}, path: 'limits', message: /expected an array of limits, got undefined/ },
    { options: { limits: limit }, path: 'limits', message: /expected an array of limits/ },
    { options: { limits: [] }, path: 'limits', message: /none.*add one/ },
    { options: { limits: [null] }, path: 'limits[0]', message: /expected a limit, got null/ },
    { options: { limits: ['ip'] }, path: 'limits[0]', message: /expected a limit, got "ip"/ },
    { options: { limits: [limit], limit: 5 }, path: 'limit', message: /calls it `policy`/ },
    { options: { limits: [limit], windowMs: 5 }, path: 'windowMs', message: /calls it `policy`/ },
    { options: { limits: [limit], stor: 5 }, path: 'stor', message: /there are store, limits/ },
    { options: { limits: [limit], store: {} }, path: 'store', message: /such as memoryStore\(\)/ },
    {
      options: { limits: [limit], store: null },
      path: 'store',
      message: /such as memoryStore\(\)/,
    },
    { options: { limits: [limit], store: memoryStore }, path: 'store', message: /a function/ },
    { options: { limits: [limit], store: 'redis://' }, path: 'store', message: /"redis/ },
    { options: { limits: [limit], logger: null }, path: 'logger', message: /warn and error/ },
    { options: { limits: [limit], logger: {} }, path: 'logger', message: /warn and error/ },
    { options: { limits: [limit], logger: true }, path: 'logger', message: /warn and error/ },
    { options: { limits: [limit], onDecision: 'log' }, path: 'onDecision', message: /a function/ },
    { options: { limits: [limit], onStoreError: {} }, path: 'onStoreError', message: /a function/ },
    {
      options: { limits: [limit], priorities: [] },
      path: 'priorities',
      message: /different names/,
    },
    { options: { limits: [limit], priorities: 'high' }, path: 'priorities', message: /"high"/ },
    { options: { limits: [limit], priorities: ['a', 'a'] }, path: 'priorities', message: /names/ },
    { options: { limits: [limit], priorities: ['a', ''] }, path: 'priorities', message: /names/ },
    { options: { limits: [limit], priorities: [1] }, path: 'priorities', message: /names/ },
    { options: { limits: [limit], priorities: null }, path: 'priorities', message: /names/ },
  ])('$path $message', ({ options, path, message }) => {
    const error = mistake(options);
    expect(error.path).toBe(path);
    expect(error.message).toMatch(message);
  });
});

describe('a name', () => {
  test.each(
    ['', ' ', '1ip', '_ip', '-ip', 'ip:', 'i p', 'ip\n', 'ïp', 'a.b', '__proto__', 'a'.repeat(65)]
      .map((name): { name: unknown } => ({ name }))
      .concat([{ name: undefined }, { name: null }, { name: 5 }, { name: ['ip2'] }]),
  )('$name is bad', ({ name }) => {
    const error = limitMistake({ name, policy });
    expect(error.path).toBe('limits[1].name');
    expect(error.message).toContain(
      'expected a letter and up to 63 letters, digits, "_" or "-", got ',
    );
  });

  it.each(['ip', 'IP', 'iP'])('%s is taken by ip', (name) => {
    const error = limitMistake({ name, policy });
    expect(error.path).toBe('limits[1].name');
    expect(error.message).toContain('is taken by "ip"');
    expect(error.message).toContain('names must differ in more than case');
  });

  it.each(['a', 'Z9', 'constructor', 'toString', 'hasOwnProperty', 'then', 'a_-9', 'b'.repeat(64)])(
    '%s is good',
    (name) => {
      const limiter = createLimiter({ limits: [{ name, policy }] });
      expect(limiter.consume({ [name]: 'k' }).remaining).toBe(9);
    },
  );
});

describe('an option of a limit', () => {
  test.each([
    { wrong: { max: 5 }, path: 'max', message: /Tollgate calls it `policy`/ },
    { wrong: { windowMs: 5 }, path: 'windowMs', message: /Tollgate calls it `policy`/ },
    { wrong: { timeWindow: 5 }, path: 'timeWindow', message: /Tollgate calls it `policy`/ },
    { wrong: { points: 5 }, path: 'points', message: /Tollgate calls it `policy`/ },
    { wrong: { keyGenerator: String }, path: 'keyGenerator', message: /Tollgate calls it `by`/ },
    { wrong: { keyPrefix: 'x' }, path: 'keyPrefix', message: /Tollgate calls it `name`/ },
    { wrong: { weight: 5 }, path: 'weight', message: /Tollgate calls it `cost`/ },
    { wrong: { dryRun: true }, path: 'dryRun', message: /Tollgate calls it `mode`/ },
    { wrong: { Policy: 5 }, path: 'Policy', message: /there are name, policy, cost/ },
    { wrong: { mode: 'off' }, path: 'mode', message: /"enforce" or "shadow", got "off"/ },
    { wrong: { mode: null }, path: 'mode', message: /"enforce" or "shadow", got null/ },
    { wrong: { cost: -1 }, path: 'cost', message: /whole number of 0 or more, got -1/ },
    { wrong: { cost: 1.5 }, path: 'cost', message: /whole number of 0 or more, got 1.5/ },
    { wrong: { cost: '5' }, path: 'cost', message: /whole number of 0 or more, got "5"/ },
    { wrong: { cost: Number.NaN }, path: 'cost', message: /whole number of 0 or more, got NaN/ },
    { wrong: { cost: null }, path: 'cost', message: /whole number of 0 or more, got null/ },
    { wrong: { cost: Infinity }, path: 'cost', message: /whole number of 0 or more, got Infinity/ },
    { wrong: { cost: 11 }, path: 'cost', message: /never be admitted by a quota of 10; lower/ },
    { wrong: { policy: null }, path: 'policy', message: /expected a policy, such as/ },
    { wrong: { policy: '10/s' }, path: 'policy', message: /expected a policy, such as/ },
    { wrong: { policy: {} }, path: 'policy.algorithm', message: /expected one of token-bucket/ },
    {
      wrong: { policy: { algorithm: 'fixed-window', limit: 5, window: 0 } },
      path: 'policy.window',
      message: /expected a duration above 0, got 0/,
    },
    {
      wrong: { policy: { algorithm: 'fixed-window', limit: 5, windowMs: 1_000 } },
      path: 'policy.windowMs',
      message: /Tollgate calls it `window`/,
    },
    {
      wrong: { policy: { algorithm: 'gcra', rate: '5', per: '1s' } },
      path: 'policy.rate',
      message: /expected a number, got "5" \(string\)/,
    },
    {
      wrong: { policy: concurrency({ limit: 5, reserved: { vip: 0.2 } }) },
      path: 'policy.reserved.vip',
      message: /no such priority; there are critical, normal, sheddable/,
    },
    {
      wrong: { policy: concurrency({ limit: 5 }), cost: 2 },
      path: 'cost',
      message: /takes one slot; leave the cost out/,
    },
  ])('$path $message', ({ wrong, path, message }) => {
    const error = limitMistake({ ...limit, name: 'tenant', ...wrong });
    expect(error.path).toBe(`limits[1].${path}`);
    expect(error.message).toMatch(message);
    expect(error.message.startsWith(`limits[1].${path}: `)).toBe(true);
  });

  it('whenStoreFails is one of four', () => {
    for (const whenStoreFails of ['local', 'allow', 'deny', { local: { share: 0.1 } }] as const) {
      createLimiter({ limits: [{ ...limit, whenStoreFails }] });
    }
    const wrong = [
      'open',
      'closed',
      '',
      true,
      null,
      5,
      {},
      { local: {} },
      { local: true },
      { local: { share: 0 } },
      { local: { share: 1.1 } },
      { local: { share: '10%' } },
      { local: { share: Number.NaN } },
    ];
    for (const whenStoreFails of wrong) {
      const error = limitMistake({ ...limit, name: 'tenant', whenStoreFails });
      expect(error.path).toBe('limits[1].whenStoreFails');
      expect(error.message).toMatch(/"local", "allow", "deny" or \{ local: \{ share \} \}/);
    }
    const unknown = { local: { share: 0.1, shares: 2 } };
    expect(limitMistake({ name: 'b', policy, whenStoreFails: unknown }).path).toBe(
      'limits[1].whenStoreFails.local.shares',
    );
  });

  it('may be a fixed cost up to the quota, or any where the quota is 0', () => {
    const none = fixedWindow({ limit: 0, window: '1s' });
    createLimiter({ limits: [{ ...limit, cost: 10 }] });
    createLimiter({ limits: [{ ...limit, cost: 0 }] });
    createLimiter({ limits: [{ name: 'none', policy: none, cost: 11 }] });
    const log = slidingLog({ limit: 3, window: '1s' });
    expect(mistake({ limits: [{ name: 'log', policy: log, cost: 4 }] }).path).toBe(
      'limits[0].cost',
    );
  });
});

describe('the options of the memory store', () => {
  test.each([
    { options: { maxKeys: 0 }, path: 'maxKeys' },
    { options: { maxKeys: 1.5 }, path: 'maxKeys' },
    { options: { maxKeys: '5' }, path: 'maxKeys' },
    { options: { maxKeys: Infinity }, path: 'maxKeys' },
    { options: { maxKeys: null }, path: 'maxKeys' },
    { options: { clock: 5 }, path: 'clock' },
    { options: { clock: null }, path: 'clock' },
    { options: { max: 5 }, path: 'max' },
  ])('$options', ({ options, path }) => {
    const make = (): unknown => memoryStore(options as object);
    expect(make).toThrow(TollgateConfigError);
    expect(make).toThrow(new RegExp(`^${path}: `));
  });

  it('that is unknown is told which there are', () => {
    const make = (): unknown => memoryStore({ maxkeys: 5 } as object);
    expect(make).toThrow('maxkeys: unknown option; there are maxKeys, clock');
  });

  it.each([1.5, -1, Number.NaN, '5', undefined, 5n])('a clock that says %s', (now) => {
    const clock = (() => now) as () => number;
    const limiter = createLimiter({ store: memoryStore({ clock }), limits: [limit] });
    expect(() => limiter.consume({ ip: 'a' })).toThrow(/^clock: expected integer microseconds/);
  });
});

it('leaves nothing behind on the store of a limiter that could not be made', () => {
  const store = memoryStore();
  const wrong = { name: 'other', policy, cost: -1 };
  expect(() => createLimiter({ store, limits: [limit, wrong] })).toThrow(TollgateConfigError);
  const changed: LimitOptions = { name: 'ip', policy: fixedWindow({ limit: 1, window: '1s' }) };
  expect(createLimiter({ store, limits: [changed] }).consume({ ip: 'a' }).limit).toBe(1);
});
