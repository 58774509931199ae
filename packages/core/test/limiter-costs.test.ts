import { describe, expect, it, test } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import type { CallOptions, Cost } from '../src/limits.ts';
import { concurrency, fixedWindow } from '../src/policy.ts';
import type { MemoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';

const hundred = fixedWindow({ limit: 100, window: '1d' });
const keys = { plain: 'a', own: 'a', jobs: 'a' };

function limiter(): Limiter<MemoryStore> {
  return createLimiter({
    limits: [
      { name: 'plain', policy: hundred },
      { name: 'own', policy: hundred, cost: 3 },
      { name: 'jobs', policy: concurrency({ limit: 100 }) },
    ],
  });
}

const anything = (value: unknown): CallOptions => value as CallOptions;

/** A decision's costs, and what they took. */
function costs(made: Limiter<MemoryStore>, options?: CallOptions): number[] {
  const decision = made.consume(keys, options);
  expect(decision.verdicts.map(({ remaining }) => 100 - remaining)).toEqual(
    decision.verdicts.map(({ cost }) => cost),
  );
  return decision.verdicts.map(({ cost }) => cost);
}

describe('the cost of a limit', () => {
  test.each([
    ['1 without more', undefined, [1, 3, 1]],
    ['1 with empty options', {}, [1, 3, 1]],
    ['1 where no limit is named', { cost: {} }, [1, 3, 1]],
    ["the call's number, after the limit's own", { cost: 5 }, [5, 3, 1]],
    ["the call's by name, before the limit's own", { cost: { own: 7 } }, [1, 7, 1]],
    ["the call's by name, each", { cost: { plain: 2, own: 4, jobs: 1 } }, [2, 4, 1]],
    ['0 by number', { cost: 0 }, [0, 3, 1]],
    ['0 by name', { cost: { plain: 0, own: 0, jobs: 0 } }, [0, 0, 0]],
  ])('is %s', (_, options, expected) => expect(costs(limiter(), options)).toEqual(expected));

  it('may be named for a limit that does not apply', () => {
    const decision = limiter().consume({ plain: 'a' }, { cost: { own: 5 } });
    expect(decision.verdicts.map(({ name, cost }) => [name, cost])).toEqual([['plain', 1]]);
  });

  it('is the same for a peek and a charge', () => {
    const made = limiter();
    const counted = { plain: 'a', own: 'a' };
    const cost = { own: 7 };
    expect(made.peek(counted, { cost }).verdicts.map((verdict) => verdict.cost)).toEqual([1, 7]);
    expect(made.charge(counted, cost).verdicts.map((verdict) => verdict.cost)).toEqual([1, 7]);
    made.refund(counted, { plain: 1, own: 4 });
    const left = made.peek(counted).verdicts.map(({ remaining }) => remaining);
    expect(left).toEqual([100, 97]);
  });
});

describe('a cost that is none', () => {
  const wrong = [
    -1,
    -0.5,
    0.5,
    1.5,
    Number.NaN,
    Infinity,
    -Infinity,
    2 ** 53,
    '1',
    '',
    null,
    true,
    [],
    1n,
  ];
  const cases = wrong.map((value) => ({ value }));

  test.each(cases)('$value throws and changes nothing', ({ value }) => {
    const made = limiter();
    made.consume({ plain: 'a' }, { cost: 8 });
    const given = [{ plain: value }, { own: value }, { plain: 1, own: value }];
    const all: unknown[] = Array.isArray(value) ? given : [value, ...given];
    for (const cost of all) {
      for (const call of ['consume', 'peek', 'wait'] as const) {
        expect(() => made[call](keys, anything({ cost })), call).toThrow(TollgateArgumentError);
        expect(() => made[call](keys, anything({ cost })), call).toThrow(
          /whole number of 0 or more/,
        );
      }
      for (const call of ['charge', 'refund'] as const) {
        const counted = { plain: 'a', own: 'a' };
        expect(() => made[call](counted, cost as Cost), call).toThrow(TollgateArgumentError);
      }
    }
    expect(made.peek({ plain: 'a' }).remaining).toBe(92);
    expect(made.store.size).toBe(1);
  });

  test.each(cases)('$value throws for a limit that does not apply, too', ({ value }) => {
    const cost = anything({ cost: { own: value } });
    expect(() => limiter().consume({ plain: 'a' }, cost)).toThrow(TollgateArgumentError);
  });

  it('for a name that there is not', () => {
    for (const cost of [{ tenant: 1 }, { constructor: 1 }, { Plain: 1 }]) {
      expect(() => limiter().consume(keys, anything({ cost }))).toThrow(/There is no limit /);
    }
  });

  it.each([2, 100, -1, 0.5])('of %s slots throws', (slots) => {
    const made = limiter();
    const cost = { jobs: slots };
    expect(() => made.consume(keys, { cost })).toThrow(TollgateArgumentError);
    expect(made.peek({ jobs: 'a' }).remaining).toBe(100);
  });
});

describe('options that are none', () => {
  test.each([
    { options: 5, message: /must be an object such as \{ cost: 1 \}, got 5/ },
    { options: null, message: /must be an object such as/ },
    { options: 'fast', message: /must be an object such as/ },
    { options: { weight: 5 }, message: /There is no option "weight".*; there are cost, priority/ },
    { options: { points: 5 }, message: /There is no option "points"/ },
    { options: { maxWaitMs: 5 }, message: /There is no option "maxWaitMs"/ },
    {
      options: { priority: 'vip' },
      message: /There is no priority "vip".*critical, normal, sheddable/,
    },
    { options: { priority: 5 }, message: /There is no priority 5/ },
    { options: { priority: 'toString' }, message: /There is no priority "toString"/ },
    { options: { policies: { tenant: hundred } }, message: /There is no limit "tenant"/ },
    { options: { policies: 5 }, message: /must be an object from limit name/ },
  ])('$options throw', ({ options, message }) => {
    const made = limiter();
    for (const call of ['consume', 'peek'] as const) {
      for (const given of [keys, { plain: 'a' }, {}]) {
        expect(() => made[call](given, anything(options))).toThrow(TollgateArgumentError);
        expect(() => made[call](given, anything(options))).toThrow(message);
      }
    }
    expect(made.store.size).toBe(0);
  });
});

describe.each(COUNTING)('a %s', (_, make) => {
  it('admits a cost of 0 at any time, unless it is overdrawn or its quota is 0', () => {
    const made = createLimiter({ limits: [{ name: 'ip', policy: make(5) }] });
    const none = { cost: 0 };
    expect(made.consume({ ip: 'a' }, none)).toMatchObject({ allowed: true, remaining: 5 });
    expect(made.store.size).toBe(0);
    made.consume({ ip: 'a' }, { cost: 5 });
    expect(made.consume({ ip: 'a' }, none)).toMatchObject({ allowed: true, remaining: 0 });
    const overdrawn = made.charge({ ip: 'a' }, 1).allowed;
    expect(made.consume({ ip: 'a' }, none).allowed).toBe(!overdrawn);

    const closed = createLimiter({ limits: [{ name: 'ip', policy: make(0) }] });
    expect(closed.consume({ ip: 'a' }, none)).toMatchObject({
      allowed: false,
      retryAfterMs: Infinity,
    });
  });

  it('admits a cost of the whole quota and nothing above', () => {
    const made = createLimiter({ limits: [{ name: 'ip', policy: make(5) }] });
    expect(made.consume({ ip: 'a' }, { cost: 6 })).toMatchObject({
      allowed: false,
      retryAfterMs: Infinity,
      remaining: 5,
    });
    expect(made.consume({ ip: 'a' }, { cost: 5 })).toMatchObject({ allowed: true, remaining: 0 });
    expect(made.consume({ ip: 'b' }, { cost: Number.MAX_SAFE_INTEGER }).retryAfterMs).toBe(
      Infinity,
    );
  });
});
