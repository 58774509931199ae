import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import { concurrency, fixedWindow, tokenBucket } from '../src/policy.ts';
import type { Mode } from '../src/store.ts';
import type { MemoryStore } from '../src/stores/memory.ts';
import { Diary, pass, stoppedStore, stopTime } from './fake-time.ts';
import { PromisedStore } from './promised-store.ts';

beforeEach(stopTime);
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

const two = fixedWindow({ limit: 2, window: '1h' });
const limits = [
  { name: 'ip', policy: two },
  { name: 'jobs', policy: concurrency({ limit: 1 }) },
];
const ip = 'a';
const full = { ip: 'a', jobs: 'a' };

interface Rig {
  readonly limiter: Limiter<MemoryStore>;
  /** What the store was asked to decide. */
  readonly asked: Mode[];
  readonly diary: Diary;
}

function rig(): Rig {
  const store = stoppedStore();
  const asked: Mode[] = [];
  const decide = store.decide.bind(store);
  store.decide = (charges, mode) => {
    asked.push(mode);
    return decide(charges, mode);
  };
  return { limiter: createLimiter({ store, limits }), asked, diary: new Diary() };
}

describe('one who waits is admitted at once', () => {
  const deeds: Record<string, (limiter: Limiter<MemoryStore>) => unknown> = {
    'by a refund': (limiter) => limiter.refund({ ip }, 1),
    'by a reset': (limiter) => limiter.reset({ ip }),
    'by an update': (limiter) => limiter.update('ip', fixedWindow({ limit: 3, window: '1h' })),
  };

  it.each(Object.entries(deeds))('%s', async (_, deed) => {
    const { limiter, diary } = rig();
    limiter.consume({ ip }, { cost: 2 });
    diary.watch('a', limiter.wait({ ip }));
    await pass(100);
    expect(diary.notes).toEqual([]);
    deed(limiter);
    await pass(0);
    expect(diary.notes).toEqual(['a@100']);
  });

  it.each(Object.entries(deeds))('%s in the same instant', async (_, deed) => {
    const { limiter, diary } = rig();
    limiter.consume({ ip }, { cost: 2 });
    diary.watch('a', limiter.wait({ ip }));
    deed(limiter);
    await pass(0);
    expect(diary.notes).toEqual(['a@0']);
  });

  it('by a settlement', async () => {
    const { limiter, diary } = rig();
    const dear = limiter.consume({ ip }, { cost: 2 });
    diary.watch('a', limiter.wait({ ip }));
    await pass(100);
    await dear.settle(1);
    await pass(0);
    expect(diary.notes).toEqual(['a@100']);
  });

  it('by a release', async () => {
    const { limiter, diary } = rig();
    const held = limiter.consume({ jobs: 'a' });
    diary.watch('a', limiter.wait({ jobs: 'a' }));
    await pass(100);
    await held.release();
    await pass(0);
    expect(diary.notes).toEqual(['a@100']);
    limiter.close();
  });

  it('with all layers, once nothing refuses any more', async () => {
    const { limiter, diary } = rig();
    const held = limiter.consume(full, { cost: { ip: 2 } });
    diary.watch('a', limiter.wait(full));
    await held.release();
    await pass(100);
    expect(diary.notes).toEqual([]);
    limiter.refund({ ip });
    await pass(0);
    expect(diary.notes).toEqual(['a@100']);
    limiter.close();
  });

  it('and those behind as far as there is room', async () => {
    const { limiter, diary } = rig();
    limiter.consume({ ip }, { cost: 2 });
    for (const name of ['1', '2', '3']) diary.watch(name, limiter.wait({ ip }));
    await pass(100);
    limiter.refund({ ip }, 2);
    await pass(0);
    expect(diary.notes).toEqual(['1@100', '2@100']);
    limiter.close();
    await pass(0);
  });
});

it('what was given back while the store was asked is not overlooked', async () => {
  const store = new PromisedStore({ clock: () => Date.now() * 1_000 });
  const limiter = createLimiter({ store, limits });
  await limiter.consume({ ip }, { cost: 2 });
  let arrive = (): void => {};
  store.arrival = new Promise((resolve) => (arrive = resolve));
  const diary = new Diary();
  // Asked, and refused, but the answer is still on its way when the refund is made.
  diary.watch('a', limiter.wait({ ip }));
  store.arrival = Promise.resolve();
  await limiter.refund({ ip }, 1);
  arrive();
  await pass(0);
  expect(diary.notes).toEqual(['a@0']);
  await limiter.close();
});

it('an admission that arrives after an abort is given back', async () => {
  const store = new PromisedStore({ clock: () => Date.now() * 1_000 });
  const limiter = createLimiter({ store, limits });
  let arrive = (): void => {};
  store.arrival = new Promise((resolve) => (arrive = resolve));
  const diary = new Diary();
  const abort = new AbortController();
  diary.watch('a', limiter.wait(full, { signal: abort.signal }));
  store.arrival = Promise.resolve();
  await pass(10);
  abort.abort();
  arrive();
  await pass(0);
  expect(diary.notes).toEqual(['a:AbortError']);
  const left = (await limiter.peek(full)).verdicts.map(({ remaining }) => remaining);
  expect(left).toEqual([2, 1]);
  await limiter.close();
});

describe('a hundred who wait', () => {
  it('for one key ask no more than they must', async () => {
    const { limiter, asked, diary } = rig();
    limiter.update('ip', tokenBucket({ capacity: 1, rate: 10, per: '1s' }));
    limiter.consume({ ip });
    for (let i = 0; i < 100; i++) diary.watch(`${i}`, limiter.wait({ ip }, { maxWaitMs: 60_000 }));
    await pass(50);
    // Each looked once whether it can be in time at all, and the first one stands at the gate.
    expect(asked.filter((mode) => mode === 'peek').length).toBeLessThanOrEqual(99);
    expect(asked.filter((mode) => mode !== 'peek')).toEqual(['consume', 'attempt']);
    asked.length = 0;
    await pass(10_200);
    expect(diary.notes.map((note) => note.split('@')[0])).toEqual(
      [...Array(100).keys()].map(String),
    );
    // One answer that admits, and one that says how long the next one has to wait.
    expect(asked.length).toBeLessThanOrEqual(200);
  });

  it('for something that is given back ask as often as there is something', async () => {
    const { limiter, asked, diary } = rig();
    limiter.consume({ ip }, { cost: 2 });
    for (let i = 0; i < 100; i++) diary.watch(`${i}`, limiter.wait({ ip }));
    await pass(10);
    asked.length = 0;
    limiter.refund({ ip }, 1);
    await pass(10);
    expect(diary.notes).toEqual(['0@10']);
    expect(asked).toEqual(['attempt', 'attempt']);
    limiter.close();
    await pass(0);
  });

  it('for a hundred keys are not woken by what one of them gets back', async () => {
    const { limiter, asked, diary } = rig();
    for (let i = 0; i < 100; i++) {
      limiter.consume({ ip: `${i}` }, { cost: 2 });
      diary.watch(`${i}`, limiter.wait({ ip: `${i}` }));
    }
    const held = limiter.consume({ jobs: 'a' });
    const dear = limiter.consume({ ip: 'other' }, { cost: 2 });
    await pass(10);
    asked.length = 0;
    limiter.refund({ ip: '42' });
    await held.release();
    await dear.settle(1);
    await pass(10);
    expect(diary.notes).toEqual(['42@10']);
    expect(asked).toEqual(['attempt']);
    limiter.close();
    await pass(0);
  });
});
