import { describe, expect, it, test } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import type { Keys } from '../src/limits.ts';
import { fixedWindow } from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { PromisedStore } from './promised-store.ts';

const two = fixedWindow({ limit: 2, window: '1d' });
const limits = [
  { name: 'ip', policy: two },
  { name: 'tenant', policy: two },
];

function limiter(names: readonly string[] = ['ip']): Limiter<MemoryStore> {
  return createLimiter({ limits: names.map((name) => ({ name, policy: two })) });
}

/** How many of five are admitted. */
function admitted(made: Limiter<MemoryStore>, keys: Keys): number {
  return Array.from({ length: 5 }, () => made.consume(keys).allowed).filter(Boolean).length;
}

/** Keys as plain JavaScript gives them: anything. */
const anything = (value: unknown): Keys => value as Keys;

describe.each([
  ['one limit', ['ip']],
  ['several limits', ['ip', 'tenant']],
])('with %s', (_, names) => {
  it('a limit without a key does not apply', () => {
    const made = limiter(names);
    for (const keys of [{}, { ip: undefined }]) {
      const decision = made.consume(anything(keys));
      expect(decision).toMatchObject({ allowed: true, reason: 'ok', source: 'none' });
      expect(decision).toMatchObject({ limit: Infinity, remaining: Infinity, resetAfterMs: 0 });
      expect(decision).toMatchObject({ retryAfterMs: 0, delayMs: 0, binding: undefined });
      expect(decision.verdicts).toEqual([]);
      expect(decision.settle(0)).toBeUndefined();
      expect(decision.release()).toBeUndefined();
    }
    expect(made.store.size).toBe(0);
  });

  it('only own properties are keys', () => {
    const made = limiter(names);
    const inherited = Object.create({ ip: 'a' }) as Keys;
    expect(made.consume(inherited).verdicts).toEqual([]);
    const bare = Object.assign(Object.create(null) as object, { ip: 'a' });
    expect(made.consume(bare).verdicts).toHaveLength(1);
  });

  it.each(['', null, 0, 7, Number.NaN, true, {}, [], ['a'], new String('a'), Symbol('a'), 5n])(
    'a key of %o throws and changes nothing',
    (key) => {
      const made = limiter(names);
      for (const call of ['consume', 'peek', 'charge', 'refund', 'reset', 'wait'] as const) {
        expect(() => made[call](anything({ ip: key }))).toThrow(TollgateArgumentError);
        expect(() => made[call](anything({ ip: key }))).toThrow(
          /^The key of ip must be a non-empty string, or undefined where the limit does not apply; got /,
        );
      }
      expect(made.store.size).toBe(0);
    },
  );

  it.each(['IP', 'constructor', 'toString', '__proto__', 'hasOwnProperty', '0', '', 'ip '])(
    'a limit %j that there is not throws',
    (name) => {
      const made = limiter(names);
      const keys = JSON.parse(`{"ip":"a",${JSON.stringify(name)}:"b"}`) as Keys;
      for (const call of ['consume', 'peek', 'charge', 'refund', 'reset', 'wait'] as const) {
        expect(() => made[call](keys)).toThrow(TollgateArgumentError);
        expect(() => made[call](keys)).toThrow(/^There is no limit .*; there are ip/);
      }
      expect(made.store.size).toBe(0);
    },
  );

  it.each([undefined, null, 'ip', 5, true, Symbol('ip')])('keys that are %o throw', (keys) => {
    const made = limiter(names);
    expect(() => made.consume(anything(keys))).toThrow(TollgateArgumentError);
    expect(() => made.reset(anything(keys))).toThrow(/must be an object from limit name to key/);
  });

  it.each([
    ['a Map', new Map([['ip', 'a']])],
    ['a Set', new Set(['a'])],
    ['a list', ['a']],
    ['an empty list', []],
    ['a promise', Promise.resolve({ ip: 'a' })],
    ['headers', new Headers({ ip: 'a' })],
  ])('%s in place of keys, costs or policies throws, rather than limit nothing', (_, wrong) => {
    const made = limiter(names);
    for (const call of ['consume', 'peek', 'charge', 'refund', 'reset', 'wait'] as const) {
      expect(() => made[call](anything(wrong))).toThrow(TollgateArgumentError);
    }
    for (const option of ['cost', 'policies']) {
      expect(() => made.consume({ ip: 'a' }, { [option]: wrong })).toThrow(TollgateArgumentError);
    }
    expect(made.store.size).toBe(0);
  });
});

it('an argument that is wrong throws at once where answers are promises, too', () => {
  const made = createLimiter({ store: new PromisedStore(), limits });
  for (const call of ['consume', 'peek', 'charge', 'refund', 'reset', 'wait'] as const) {
    expect(() => made[call](anything({ ip: null }))).toThrow(TollgateArgumentError);
    expect(() => made[call](anything({ api: 'a' }))).toThrow(TollgateArgumentError);
  }
  expect(() => made.consume({ ip: 'a' }, { cost: -1 })).toThrow(TollgateArgumentError);
  expect(made.store.asked).toEqual([]);
});

describe('members of objects', () => {
  const members = ['constructor', 'toString', 'hasOwnProperty', 'then', 'valueOf'];

  test.each([...members, '__proto__'])('%s is a key like any other', (key) => {
    const made = limiter(['ip', 'tenant']);
    expect(admitted(made, { ip: key })).toBe(2);
    expect(admitted(made, { ip: 'a' })).toBe(2);
    expect(Object.getOwnPropertyNames(Object.prototype)).not.toContain('polluted');
  });

  test.each(members)('%s is a name like any other', async (name) => {
    for (const names of [[name], ['ip', name]]) {
      const made = limiter(names);
      expect(made.consume({}).verdicts).toEqual([]);
      expect(admitted(made, { [name]: 'a' })).toBe(2);
      const decision = made.consume({ [name]: 'b' }, { cost: { [name]: 2 } });
      expect(await Promise.resolve(decision)).toBe(decision);
      expect(decision.remaining).toBe(0);
      const brought = { [name]: fixedWindow({ limit: 9, window: '1d' }) };
      expect(made.consume({ [name]: 'c' }, { policies: brought }).limit).toBe(9);
      expect(made.consume({ [name]: 'c' }, { cost: {}, policies: {} }).limit).toBe(2);
    }
  });
});

describe('strange keys', () => {
  const strange = [
    ' ',
    '\n',
    'a\n',
    'a\r\nb',
    '\0',
    'a\0b',
    '{a}',
    '{',
    '}{',
    'ip',
    'ip:a',
    'ip\na',
    '*',
    '[a-z]',
    'é',
    'e\u0301',
    '\ud800',
    '\ud801',
    '\udc00',
    '\ufffd',
    '𝒳',
    '‮',
    ':',
    '|',
    '%',
    '%20',
    '/',
    '\\',
    'undefined',
    'null',
    'NaN',
    '[object Object]',
    'sha256:',
    'sha256:a',
  ];

  it('are all apart from each other', () => {
    const made = limiter();
    for (const key of strange) expect(admitted(made, { ip: key }), JSON.stringify(key)).toBe(2);
    for (const key of strange) made.reset({ ip: key });
    expect(made.store.size).toBe(0);
  });

  it('are told as they are, if they are short', () => {
    const made = limiter();
    for (const key of strange.slice(0, -2)) {
      expect(made.consume({ ip: key }).verdicts[0]?.key).toBe(key);
    }
  });
});

describe('long keys', () => {
  const keyOf = (key: string): string => limiter().consume({ ip: key }).verdicts[0]?.key ?? '';

  it('are hashed from 257 bytes in UTF-8 on', () => {
    expect(keyOf('a'.repeat(256))).toBe('a'.repeat(256));
    expect(keyOf('é'.repeat(128))).toBe('é'.repeat(128));
    for (const long of ['a'.repeat(257), `${'é'.repeat(128)}a`, '𝒳'.repeat(65), 'a'.repeat(1e6)]) {
      expect(keyOf(long)).toMatch(/^sha256:[\w-]{43}$/);
      expect(keyOf(long)).toBe(keyOf(`${long}`));
    }
  });

  it('are apart even where they begin alike', () => {
    const made = limiter();
    const start = 'x'.repeat(9_000);
    for (let i = 0; i < 1_000; i++) {
      const ip = `${start}${i}${'y'.repeat(996)}`;
      expect(admitted(made, { ip })).toBe(2);
    }
    expect(made.store.size).toBe(1_000);
  });

  it('are apart where they differ by a lone surrogate only', () => {
    const made = limiter();
    for (const odd of ['\ud800', '\ud801', '\udfff', '\ufffd']) {
      expect(admitted(made, { ip: 'x'.repeat(300) + odd })).toBe(2);
    }
  });

  it('cannot be spent by one who sends the hash', () => {
    const made = limiter();
    const long = 'victim'.repeat(100);
    const hashed = keyOf(long);
    expect(admitted(made, { ip: hashed })).toBe(2);
    expect(admitted(made, { ip: keyOf(hashed) })).toBe(2);
    expect(admitted(made, { ip: long })).toBe(2);
  });
});

it('a name and a key are never taken for another name and key', () => {
  const store = memoryStore();
  const names = ['a', 'a-b', 'ab', 'a_b'];
  const made = createLimiter({ store, limits: names.map((name) => ({ name, policy: two })) });
  for (const separator of [':', '|', '/', ' ', '%', '\n', '\0', '-', '_']) {
    const keys = ['b', 'c', 'b-c', '-b', '_b', '', 'b_'].map((key) => `${separator}${key}`);
    for (const name of names) {
      for (const key of new Set([...keys, ...keys.map((each) => `b${each}c`)])) {
        expect(made.peek({ [name]: key }).remaining, `${name} ${key}`).toBe(2);
        made.consume({ [name]: key }, { cost: 2 });
      }
    }
  }
});
