import { describe, expect, it, test } from 'vitest';
import type { Decision } from '../src/decision.ts';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

const minute = (limit: number): Policy => fixedWindow({ limit, window: '60s' });

function rig(policy: Policy): { clock: HandClock; limiter: Limiter<MemoryStore> } {
  const clock = new HandClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, limiter: createLimiter({ store, limits: [{ name: 'llm', policy }] }) };
}

const llm = { llm: 'acme' };
type Settlement = Parameters<Decision['settle']>[0];

describe.each(COUNTING)('settling a %s', (_, make) => {
  it('gives back what was reserved too much', () => {
    const { limiter } = rig(make(100));
    const reserved = Array.from({ length: 5 }, () => limiter.consume(llm, { cost: 60 }));
    expect(reserved.map(({ allowed }) => allowed)).toEqual([true, false, false, false, false]);
    for (const decision of reserved) expect(decision.settle(58)).toBeUndefined();
    expect(limiter.peek(llm).remaining).toBe(42);
    expect(limiter.consume(llm, { cost: 40 }).allowed).toBe(true);
    expect(limiter.consume(llm, { cost: 10 }).allowed).toBe(false);
  });

  it('counts the first call only', () => {
    const { limiter } = rig(make(100));
    const decision = limiter.consume(llm, { cost: 80 });
    void decision.settle(50);
    void decision.settle(0);
    void decision.settle(100);
    void decision.settle({ llm: 100 });
    expect(limiter.peek(llm).remaining).toBe(50);
  });

  it('by 0 gives all back, by the same cost nothing', () => {
    const { limiter } = rig(make(100));
    void limiter.consume(llm, { cost: 30 }).settle(30);
    expect(limiter.peek(llm).remaining).toBe(70);
    void limiter.consume(llm, { cost: 70 }).settle(0);
    expect(limiter.peek(llm).remaining).toBe(70);
  });

  it('of a refused request changes nothing', () => {
    const { limiter } = rig(make(100));
    limiter.consume(llm, { cost: 90 });
    const refused = limiter.consume(llm, { cost: 20 });
    for (const actual of [0, 20, 50]) void refused.settle(actual);
    expect(limiter.peek(llm).remaining).toBe(10);
  });

  it('of a peek changes nothing', () => {
    const { limiter } = rig(make(100));
    for (const actual of [0, 1, 50]) void limiter.peek(llm).settle(actual);
    expect(limiter.store.size).toBe(0);
  });

  it('charges what was reserved too little, as far as there is debt', () => {
    const { limiter } = rig(make(100));
    void limiter.consume(llm, { cost: 0 }).settle(30);
    expect(limiter.peek(llm).remaining).toBe(70);
    void limiter.consume(llm, { cost: 1 }).settle(69);
    expect(limiter.peek(llm).remaining).toBe(1);
    void limiter.consume(llm, { cost: 1 }).settle(500);
    expect(limiter.peek(llm)).toMatchObject({ allowed: false, remaining: 0 });
  });

  test.each(
    [undefined, null, {}, [], [80], Number.NaN, '80', -5, 0.5, Infinity, true, 80n, { llm: '80' }]
      .map((actual): { actual: unknown } => ({ actual }))
      .concat([{ actual: { llm: -1 } }, { actual: { llm: undefined } }, { actual: { other: 1 } }]),
  )('by $actual throws and keeps the reservation', ({ actual }) => {
    const { limiter } = rig(make(100));
    const decision = limiter.consume(llm, { cost: 80 });
    expect(() => decision.settle(actual as Settlement)).toThrow(TollgateArgumentError);
    expect(limiter.peek(llm).remaining).toBe(20);
    void decision.settle(50);
    expect(limiter.peek(llm).remaining).toBe(50);
  });
});

describe('a number', () => {
  const limiter = createLimiter({
    limits: [
      { name: 'a', policy: minute(100) },
      { name: 'b', policy: minute(100) },
      { name: 'own', policy: minute(100), cost: 2 },
      { name: 'jobs', policy: concurrency({ limit: 100 }) },
    ],
  });
  let calls = 0;
  /** Consumes with fresh keys, settles, and says what is left of each. */
  function left(
    names: string,
    cost: number | Record<string, number> | undefined,
    settle: Settlement,
  ): number[] {
    const keys = Object.fromEntries(names.split(' ').map((name) => [name, `${calls}`]));
    calls++;
    const decision = limiter.consume(keys, cost === undefined ? {} : { cost });
    void decision.settle(settle);
    return limiter.peek(keys).verdicts.map(({ remaining }) => remaining);
  }

  it('goes to the one limit', () => expect(left('a', 5, 7)).toEqual([93]));

  it('goes to the one limit that is not concurrency', () => {
    expect(left('a jobs', 5, 7)).toEqual([93, 99]);
  });

  it('goes to the one whose cost was given by name', () => {
    expect(left('a b', { b: 5 }, 7)).toEqual([99, 93]);
    expect(left('a b jobs', { b: 5, jobs: 1 }, 7)).toEqual([99, 93, 99]);
  });

  it('goes to the one whose limit has a cost', () => {
    expect(left('a b own', 5, 7)).toEqual([95, 95, 93]);
  });

  it.each([
    ['a b', undefined],
    ['a b', 5],
    ['a b', { a: 1, b: 1 }],
    ['a b own', { a: 5 }],
  ])('that could go to several of %s (%j) throws, and names settle by', (names, cost) => {
    expect(() => left(names, cost, 7)).toThrow(TollgateArgumentError);
    expect(() => left(names, cost, 7)).toThrow(/^settle\(7\) could mean .*; write settle\(\{ /);
  });

  it('by name goes to each', () => {
    expect(left('a b', 5, { b: 7, a: 0 })).toEqual([100, 93]);
    expect(left('a b own', 5, { own: 9 })).toEqual([95, 95, 91]);
  });

  it('by name counts the first call only, for whatever limit', () => {
    const keys = { a: 'once', b: 'once' };
    const decision = limiter.consume(keys, { cost: 5 });
    void decision.settle({ a: 0 });
    void decision.settle({ b: 0 });
    expect(limiter.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([100, 95]);
  });

  it('by name throws for what was not charged, or holds a slot', () => {
    expect(() => left('a', 5, { a: 1, b: 1 })).toThrow(/no charge of "b".*there are a\./);
    expect(() => left('a jobs', 5, { jobs: 0 })).toThrow(/no charge of "jobs"/);
    expect(() => left('a', 5, { constructor: 1 } as Settlement)).toThrow(TollgateArgumentError);
  });
});

describe('later', () => {
  it('a fixed window gives back only while it lasts, and forgets its debt', () => {
    const { limiter, clock } = rig(minute(100));
    const first = limiter.consume(llm, { cost: 80 });
    const dear = limiter.consume(llm, { cost: 10 });
    clock.advance(60_000);
    limiter.consume(llm, { cost: 50 });
    void first.settle(0);
    expect(limiter.peek(llm).remaining).toBe(50);
    void dear.settle(1_000);
    expect(limiter.peek(llm).remaining).toBe(0);
    clock.advance(60_000);
    expect(limiter.peek(llm).remaining).toBe(100);
  });

  it('a sliding window gives back from the window before, and carries its debt', () => {
    const { limiter, clock } = rig(slidingWindow({ limit: 100, window: '60s' }));
    const first = limiter.consume(llm, { cost: 80 });
    clock.advance(60_000);
    expect(limiter.peek(llm).remaining).toBe(20);
    void first.settle(10);
    expect(limiter.peek(llm).remaining).toBe(90);
    void limiter.consume(llm, { cost: 1 }).settle(200);
    clock.advance(60_000);
    expect(limiter.peek(llm).remaining).toBe(0);
    clock.advance(30_000);
    expect(limiter.peek(llm).remaining).toBe(0);
    clock.advance(15_000);
    expect(limiter.peek(llm).remaining).toBe(50);
  });

  it('a log gives back what it still holds of the request, and takes what fits', () => {
    const { limiter, clock } = rig(slidingLog({ limit: 100, window: '60s' }));
    const first = limiter.consume(llm, { cost: 80 });
    clock.advance(30_000);
    const second = limiter.consume(llm, { cost: 10 });
    void second.settle(500);
    expect(limiter.peek(llm).remaining).toBe(0);
    void first.settle(30);
    expect(limiter.peek(llm).remaining).toBe(50);
    clock.advance(30_000);
    expect(limiter.peek(llm).remaining).toBe(80);
  });

  it('a bucket gives back no more than was owed all along', () => {
    const { limiter, clock } = rig(tokenBucket({ capacity: 100, rate: 1, per: '1s' }));
    const first = limiter.consume(llm, { cost: 80 });
    clock.advance(70_000);
    limiter.consume(llm, { cost: 50 });
    expect(limiter.peek(llm).remaining).toBe(40);
    void first.settle(0);
    expect(limiter.peek(llm).remaining).toBe(50);
    const whole = limiter.consume(llm, { cost: 50 });
    clock.advance(200_000);
    limiter.consume(llm, { cost: 60 });
    void whole.settle(0);
    expect(limiter.peek(llm).remaining).toBe(40);
  });

  it('a leaky bucket gives a place back only from the end of the line', () => {
    const { limiter } = rig(leakyBucket({ capacity: 10, rate: 1, per: '1s' }));
    const first = limiter.consume(llm);
    const second = limiter.consume(llm);
    void first.settle(0);
    expect(limiter.consume(llm).delayMs).toBe(2_000);
    void second.settle(0);
    expect(limiter.peek(llm).remaining).toBe(7);
  });
});

it('does not free a slot, and a release does not settle', async () => {
  const limiter = createLimiter({
    limits: [
      { name: 'llm', policy: minute(100) },
      { name: 'jobs', policy: concurrency({ limit: 1 }) },
    ],
  });
  const keys = { llm: 'x', jobs: 'x' };
  const decision = limiter.consume(keys, { cost: 40 });
  void decision.settle(10);
  expect(limiter.peek(keys)).toMatchObject({ allowed: false, binding: { name: 'jobs' } });
  await decision.release();
  expect(limiter.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([90, 1]);
});
