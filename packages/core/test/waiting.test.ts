import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { TollgateArgumentError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  tokenBucket,
} from '../src/policy.ts';
import type { MemoryStore } from '../src/stores/memory.ts';
import { Diary, pass, stoppedStore, stopTime } from './fake-time.ts';
import { PromisedStore } from './promised-store.ts';

beforeEach(stopTime);
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function limiterOf(policies: Record<string, Policy>): Limiter<MemoryStore> {
  return createLimiter({
    store: stoppedStore(),
    limits: Object.entries(policies).map(([name, policy]) => ({ name, policy })),
  });
}

const oneASecond = tokenBucket({ capacity: 1, rate: 1, per: '1s' });
const fiveAtOnce = tokenBucket({ capacity: 5, rate: 1, per: '1s' });
const oneAnHour = fixedWindow({ limit: 1, window: '1h' });

describe('a wait', () => {
  it('is over at once when nothing stands in the way', async () => {
    const limiter = limiterOf({ ip: oneASecond });
    const decision = await limiter.wait({ ip: 'a' });
    expect(decision).toMatchObject({ allowed: true, remaining: 0, delayMs: 0 });
    expect((await limiter.wait({})).verdicts).toEqual([]);
  });

  it('ends when it can be admitted, and is then charged once', async () => {
    const limiter = limiterOf({ ip: oneASecond });
    limiter.consume({ ip: 'a' });
    const diary = new Diary();
    diary.watch('a', limiter.wait({ ip: 'a' }));
    await pass(999);
    expect(diary.notes).toEqual([]);
    await pass(3);
    expect(diary.notes).toHaveLength(1);
    expect(limiter.peek({ ip: 'a' })).toMatchObject({ allowed: false, remaining: 0 });
    await pass(1_000);
    expect(limiter.peek({ ip: 'a' }).remaining).toBe(1);
  });

  it('gives a decision that can be settled and released', async () => {
    const policy = slidingLog({ limit: 10, window: '1m' });
    const limiter = limiterOf({ llm: policy, jobs: concurrency({ limit: 1 }) });
    const keys = { llm: 'a', jobs: 'a' };
    const decision = await limiter.wait(keys, { cost: 8 });
    await decision.settle(3);
    await decision.release();
    expect(limiter.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([7, 1]);
  });

  it('may be longer than a timer can be', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const limiter = limiterOf({ ip: slidingLog({ limit: 1, window: '90d' }) });
    limiter.consume({ ip: 'a' });
    const diary = new Diary();
    diary.watch('a', limiter.wait({ ip: 'a' }));
    const days = 86_400_000;
    await pass(90 * days - 1);
    expect(diary.notes).toEqual([]);
    await pass(10);
    expect(diary.notes).toHaveLength(1);
    for (const [, ms] of timers.mock.calls) expect(ms).toBeLessThan(2 ** 31);
    timers.mockRestore();
  });

  test.each([
    [{ maxWaitMs: -1 }, /maxWaitMs must be 0 or more, got -1/],
    [{ maxWaitMs: Number.NaN }, /maxWaitMs must be 0 or more, got NaN/],
    [{ maxWaitMs: '5s' as unknown as number }, /maxWaitMs must be 0 or more, got "5s"/],
    [{ cost: -1 }, /whole number of 0 or more/],
    [{ priority: 'vip' }, /There is no priority "vip"/],
    [{ timeout: 5 } as object, /There is no option "timeout"/],
  ])('with %j throws at once', (options, message) => {
    const limiter = limiterOf({ ip: oneASecond });
    expect(() => limiter.wait({ ip: 'a' }, options)).toThrow(TollgateArgumentError);
    expect(() => limiter.wait({ ip: 'a' }, options)).toThrow(message);
  });
});

describe('a line', () => {
  it('is served in order of arrival, one after the other', async () => {
    const limiter = limiterOf({ ip: oneASecond });
    limiter.consume({ ip: 'a' });
    const diary = new Diary();
    for (const name of ['1st', '2nd', '3rd', '4th']) diary.watch(name, limiter.wait({ ip: 'a' }));
    for (const served of [1, 2, 3, 4]) {
      await pass(1_003);
      expect(diary.notes).toHaveLength(served);
    }
    expect(diary.notes.map((note) => note.split('@')[0])).toEqual(['1st', '2nd', '3rd', '4th']);
  });

  it('is not overtaken by one who asks for less', async () => {
    const limiter = limiterOf({ ip: fiveAtOnce });
    limiter.consume({ ip: 'a' }, { cost: 5 });
    const diary = new Diary();
    diary.watch('dear', limiter.wait({ ip: 'a' }, { cost: 5 }));
    diary.watch('cheap', limiter.wait({ ip: 'a' }));
    await pass(4_900);
    expect(diary.notes).toEqual([]);
    await pass(1_110);
    expect(diary.notes.map((note) => note.split('@')[0])).toEqual(['dear', 'cheap']);
  });

  it('does not hold up another key', async () => {
    const limiter = limiterOf({ ip: oneAnHour });
    limiter.consume({ ip: 'a' });
    const abort = new AbortController();
    const diary = new Diary();
    diary.watch('a', limiter.wait({ ip: 'a' }, { signal: abort.signal }));
    diary.watch('b', limiter.wait({ ip: 'b' }));
    await pass(0);
    expect(diary.notes).toEqual(['b@0']);
    abort.abort();
    await pass(0);
  });

  it('is one for each limit: who stands in two waits for both', async () => {
    const limiter = limiterOf({ ip: oneASecond, tenant: oneASecond });
    limiter.consume({ ip: 'a' });
    const diary = new Diary();
    diary.watch('ip', limiter.wait({ ip: 'a' }));
    diary.watch('both', limiter.wait({ ip: 'a', tenant: 't' }));
    diary.watch('tenant', limiter.wait({ tenant: 't' }));
    await pass(0);
    expect(diary.notes).toEqual([]);
    await pass(4_000);
    expect(diary.notes.map((note) => note.split('@')[0])).toEqual(['ip', 'both', 'tenant']);
  });

  it('is not overtaken by one who comes first in another', async () => {
    const limiter = limiterOf({ ip: oneASecond, tenant: fiveAtOnce });
    limiter.consume({ ip: 'a', tenant: 't' }, { cost: { tenant: 4 } });
    const diary = new Diary();
    diary.watch('ip', limiter.wait({ ip: 'a' }));
    diary.watch('dear', limiter.wait({ tenant: 't' }, { cost: 5 }));
    diary.watch('both', limiter.wait({ ip: 'a', tenant: 't' }));
    await pass(6_000);
    expect(diary.notes.map((note) => note.split('@')[0])).toEqual(['ip', 'dear', 'both']);
  });

  it('closes up when one leaves it', async () => {
    const limiter = limiterOf({ ip: oneASecond });
    limiter.consume({ ip: 'a' });
    const diary = new Diary();
    const aborts = [1, 2, 3, 4].map((name) => {
      const abort = new AbortController();
      diary.watch(`${name}`, limiter.wait({ ip: 'a' }, { signal: abort.signal }));
      return abort;
    });
    await pass(500);
    aborts[0]?.abort();
    aborts[2]?.abort();
    await pass(2_000);
    expect(diary.notes).toEqual(['1:AbortError', '3:AbortError', '2@1001', '4@2002']);
  });
});

describe('a leaky bucket', () => {
  const queue = leakyBucket({ capacity: 4, rate: 1, per: '1s' });

  it('makes wait as long as it says, and no longer', async () => {
    const limiter = limiterOf({ out: queue });
    const diary = new Diary();
    const waits = [0, 1, 2, 3, 4, 5].map((at) => {
      const wait = limiter.wait({ out: 'a' });
      diary.watch(`${at}`, wait);
      return wait;
    });
    await pass(5_100);
    expect(diary.notes.map((note) => note.split('@')[0])).toEqual(['0', '1', '2', '3', '4', '5']);
    diary.notes.forEach((note, at) => {
      const servedAt = Number(note.split('@')[1]);
      expect(servedAt).toBeGreaterThanOrEqual(at * 1_000);
      expect(servedAt).toBeLessThanOrEqual(at * 1_000 + 10);
    });
    for (const wait of waits) expect(await wait).toMatchObject({ allowed: true, delayMs: 0 });
  });

  it('is not charged again when something else is given back meanwhile', async () => {
    const limiter = limiterOf({ out: queue, ip: oneASecond });
    limiter.consume({ out: 'a' });
    const diary = new Diary();
    diary.watch('a', limiter.wait({ out: 'a' }));
    await pass(10);
    limiter.refund({ out: 'b' });
    limiter.refund({ out: 'a' }, 0);
    limiter.update('ip', oneAnHour);
    await pass(10);
    expect(limiter.peek({ out: 'a' }).remaining).toBe(2);
    await pass(982);
    expect(diary.notes).toEqual(['a@1001']);
  });

  it.each(['abort', 'close'])('gets its place back on %s, and slots are freed', async (how) => {
    const store = stoppedStore();
    const limits = [
      { name: 'out', policy: queue },
      { name: 'jobs', policy: concurrency({ limit: 1 }) },
    ];
    const [limiter, other] = [createLimiter({ store, limits }), createLimiter({ store, limits })];
    const keys = { out: 'a', jobs: 'a' };
    limiter.consume({ out: 'a' });
    const abort = new AbortController();
    const diary = new Diary();
    diary.watch('a', limiter.wait(keys, { signal: abort.signal }));
    await pass(10);
    expect(other.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([2, 0]);
    if (how === 'abort') abort.abort();
    limiter.close();
    await pass(0);
    expect(diary.notes).toEqual([how === 'abort' ? 'a:AbortError' : 'a:TollgateClosedError']);
    expect(other.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([3, 1]);
    other.close();
  });

  it('is not charged for a delay that would be too long', async () => {
    const limiter = limiterOf({ out: queue });
    for (let i = 0; i < 3; i++) limiter.consume({ out: 'a' });
    const diary = new Diary();
    diary.watch('late', limiter.wait({ out: 'a' }, { maxWaitMs: 2_999 }));
    await pass(0);
    expect(diary.notes).toEqual(['late:TollgateWaitError']);
    expect(limiter.peek({ out: 'a' }).remaining).toBe(1);
    diary.watch('in time', limiter.wait({ out: 'a' }, { maxWaitMs: 3_000 }));
    await pass(3_001);
    expect(diary.notes[1]).toMatch(/^in time@/);
  });
});

it('works the same where answers are promises', async () => {
  const store = new PromisedStore({ clock: () => Date.now() * 1_000 });
  const limiter = createLimiter({ store, limits: [{ name: 'ip', policy: oneASecond }] });
  const diary = new Diary();
  for (const name of ['1', '2', '3']) diary.watch(name, limiter.wait({ ip: 'a' }));
  await pass(2_010);
  expect(diary.notes).toEqual(['1@0', '2@1001', '3@2001']);
  await limiter.close();
});
