import { afterEach, describe, expect, it, vi } from 'vitest';
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

afterEach(() => void vi.useRealTimers());

function rig(policy: Policy): { clock: HandClock; limiter: Limiter<MemoryStore> } {
  const clock = new HandClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, limiter: createLimiter({ store, limits: [{ name: 'ip', policy }] }) };
}

const ip = 'a';

describe('every call', () => {
  it('answers at once, with a value', async () => {
    const limiter = createLimiter({
      limits: [{ name: 'ip', policy: slidingLog({ limit: 5, window: 9 }) }],
    });
    for (const call of ['consume', 'peek', 'charge'] as const) {
      const decision = limiter[call]({ ip });
      expect(decision).not.toBeInstanceOf(Promise);
      expect(decision.allowed).toBe(true);
      expect(decision.settle(1)).toBeUndefined();
      expect(decision.release()).toBeUndefined();
      expect((await Promise.resolve(decision)).allowed).toBe(true);
    }
    expect(limiter.refund({ ip })).toBeUndefined();
    expect(limiter.reset({ ip })).toBeUndefined();
    expect(limiter.close()).toBeUndefined();
  });

  it('needs no timer', () => {
    const timers = [vi.spyOn(globalThis, 'setTimeout'), vi.spyOn(globalThis, 'setInterval')];
    const limiter = createLimiter({
      limits: COUNTING.map(([, make], at) => ({ name: `limit${at}`, policy: make(5) })),
    });
    const keys = Object.fromEntries(COUNTING.map((_, at) => [`limit${at}`, 'a']));
    for (let i = 0; i < 10; i++) limiter.consume(keys);
    limiter.peek(keys);
    limiter.refund(keys);
    limiter.close();
    for (const timer of timers) {
      expect(timer).not.toHaveBeenCalled();
      timer.mockRestore();
    }
  });
});

describe('the clock', () => {
  it("is the system's where none is given", () => {
    const limiter = createLimiter({
      limits: [{ name: 'ip', policy: tokenBucket({ capacity: 1, rate: 1, per: 1 }) }],
    });
    const before = Date.now();
    const { atMs } = limiter.consume({ ip });
    expect(atMs).toBeGreaterThanOrEqual(before);
    expect(atMs).toBeLessThanOrEqual(Date.now());
  });

  it('of the system that steps back is not followed', () => {
    vi.useFakeTimers({ now: 1_800_000_000_000, toFake: ['Date'] });
    const limiter = createLimiter({
      limits: [{ name: 'ip', policy: fixedWindow({ limit: 9, window: '1h' }) }],
    });
    expect(limiter.consume({ ip }).atMs).toBe(1_800_000_000_000);
    vi.setSystemTime(1_700_000_000_000);
    expect(limiter.consume({ ip }).atMs).toBe(1_800_000_000_000);
    vi.setSystemTime(1_700_000_005_000);
    expect(limiter.consume({ ip })).toMatchObject({ atMs: 1_800_000_005_000, remaining: 6 });
    vi.setSystemTime(1_900_000_000_000);
    expect(limiter.consume({ ip }).remaining).toBe(8);
  });

  it('that is given says when a decision was made, to the microsecond', () => {
    const { limiter, clock } = rig(slidingWindow({ limit: 5, window: '1s' }));
    clock.us += 1;
    expect(limiter.consume({ ip }).atMs).toBe(1_767_225_600_000.001);
  });

  it('is asked once for all limits of a request', () => {
    let asked = 0;
    const store = memoryStore({ clock: () => 1e15 + asked++ });
    const limits = COUNTING.map(([, make], at) => ({ name: `limit${at}`, policy: make(5) }));
    const keys = Object.fromEntries(limits.map(({ name }) => [name, 'a']));
    createLimiter({ store, limits }).consume(keys);
    expect(asked).toBe(1);
  });
});

describe.each(COUNTING)('a clock that steps back, with a %s', (_, make) => {
  it('gives nothing early and locks nobody out', () => {
    const { limiter, clock } = rig(make(4));
    clock.advance(600_000);
    limiter.consume({ ip }, { cost: 4 });
    for (const back of [1, 1_000, 500_000, 86_400_000]) {
      clock.advance(-back);
      expect(limiter.peek({ ip }).allowed, `${back}`).toBe(false);
      const refused = limiter.consume({ ip });
      expect(refused.allowed, `${back}`).toBe(false);
      expect(refused.retryAfterMs).toBeLessThanOrEqual(120_000);
    }
    clock.advance(120_000);
    expect(limiter.consume({ ip }, { cost: 4 }).allowed).toBe(true);
  });

  it('finds what it left, whoever peeked meanwhile', () => {
    const { limiter, clock } = rig(make(4));
    limiter.consume({ ip }, { cost: 4 });
    const before = limiter.peek({ ip }).toJSON();
    clock.advance(200_000);
    expect(limiter.peek({ ip }).remaining).toBe(4);
    clock.advance(-200_000);
    expect(limiter.peek({ ip }).toJSON()).toEqual(before);
  });
});

describe('what is kept', () => {
  it('is nothing of a key that was refused, peeked at or never charged', () => {
    const { limiter } = rig(fixedWindow({ limit: 5, window: '1d' }));
    limiter.peek({ ip });
    limiter.consume({ ip }, { cost: 6 });
    limiter.consume({ ip }, { cost: 0 });
    limiter.charge({ ip }, 0);
    limiter.refund({ ip }, 3);
    limiter.reset({ ip });
    expect(limiter.store.size).toBe(0);
  });

  it('is one entry a key and limit', () => {
    const store = memoryStore();
    const limits = ['a', 'b'].map((name) => ({
      name,
      policy: fixedWindow({ limit: 50, window: '1d' }),
    }));
    const limiters = [createLimiter({ store, limits }), createLimiter({ store, limits })];
    for (let i = 0; i < 20; i++) limiters[i % 2]?.consume({ a: `${i % 5}`, b: `${i % 3}` });
    expect(store.size).toBe(8);
    limiters[0]?.reset({ a: '0' });
    expect(store.size).toBe(7);
  });

  it.each(COUNTING)(
    'of a %s is forgotten bit by bit once it is whole, as calls come in',
    (_, make) => {
      const { limiter, clock } = rig(make(5));
      for (let i = 0; i < 500; i++) limiter.consume({ ip: `old ${i}` });
      expect(limiter.store.size).toBe(500);
      clock.advance(180_000);
      let before = limiter.store.size;
      let most = 0;
      for (let i = 0; i < 20_000; i++) {
        limiter.consume({ ip: `new ${i % 10}` });
        most = Math.max(most, before - limiter.store.size);
        before = limiter.store.size;
      }
      expect(limiter.store.size).toBe(10);
      expect(most).toBeLessThanOrEqual(64);
    },
  );

  it('is forgotten of limits that nobody asks any more, too', () => {
    const clock = new HandClock();
    const store = memoryStore({ clock: clock.read });
    const policy = slidingWindow({ limit: 5, window: '1s' });
    const names = ['first', 'busy', 'last'];
    const limiter = createLimiter({ store, limits: names.map((name) => ({ name, policy })) });
    for (let i = 0; i < 200; i++) limiter.consume({ first: `${i}`, busy: `${i}`, last: `${i}` });
    clock.advance(60_000);
    for (let i = 0; i < 20_000; i++) limiter.consume({ busy: 'a' });
    expect(store.size).toBe(1);
  });

  it('is never what somebody still owes', () => {
    const { limiter, clock } = rig(leakyBucket({ capacity: 5, rate: 5, per: '1h' }));
    for (let i = 0; i < 300; i++) limiter.consume({ ip: `${i}` }, { cost: 5 });
    clock.advance(3_599_999);
    for (let i = 0; i < 20_000; i++) limiter.peek({ ip: 'other' });
    for (let i = 0; i < 300; i++) expect(limiter.peek({ ip: `${i}` }).remaining).toBe(4);
  });
});

describe('a window that is spread', () => {
  const spread = fixedWindow({ limit: 1, window: '1h', spread: true });

  it('starts anew at another moment for each key, and at the same one every time', () => {
    const { limiter, clock } = rig(spread);
    const resets = new Map<string, number>();
    for (let i = 0; i < 200; i++) resets.set(`${i}`, limiter.consume({ ip: `${i}` }).resetAfterMs);
    expect(new Set(resets.values()).size).toBeGreaterThan(190);
    const minutes = [...resets.values()].map((ms) => Math.ceil(ms / 360_000));
    for (let tenth = 1; tenth <= 10; tenth++) {
      expect(minutes.filter((each) => each === tenth).length).toBeGreaterThan(5);
    }
    clock.advance(7_200_000);
    for (const [key, ms] of resets) {
      expect(limiter.consume({ ip: key }).resetAfterMs).toBeCloseTo(ms, 3);
    }
  });

  it('is as long as any other', () => {
    const { limiter, clock } = rig(spread);
    clock.advance(limiter.consume({ ip }).resetAfterMs);
    expect(limiter.consume({ ip })).toMatchObject({ allowed: true, resetAfterMs: 3_600_000 });
    clock.advance(3_599_999.999);
    expect(limiter.consume({ ip }).allowed).toBe(false);
    clock.advance(0.001);
    expect(limiter.consume({ ip }).allowed).toBe(true);
  });
});

it('holds the slots of several limiters apart', async () => {
  const store = memoryStore();
  const limits = [{ name: 'jobs', policy: concurrency({ limit: 2 }) }];
  const [one, two] = [createLimiter({ store, limits }), createLimiter({ store, limits })];
  const [first, second] = [one.consume({ jobs: 'a' }), two.consume({ jobs: 'a' })];
  expect(two.consume({ jobs: 'a' }).allowed).toBe(false);
  await first.release();
  await first.release();
  expect(one.peek({ jobs: 'a' }).remaining).toBe(1);
  await second.release();
  expect(two.peek({ jobs: 'a' }).remaining).toBe(2);
});
