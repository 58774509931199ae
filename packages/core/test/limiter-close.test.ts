import { describe, expect, it } from 'vitest';
import { TollgateClosedError } from '../src/errors.ts';
import { createLimiter } from '../src/limiter.ts';
import { concurrency, fixedWindow } from '../src/policy.ts';
import { memoryStore } from '../src/stores/memory.ts';
import { PromisedStore } from './promised-store.ts';

const two = fixedWindow({ limit: 2, window: '1d' });
const limits = [
  { name: 'ip', policy: two },
  { name: 'jobs', policy: concurrency({ limit: 1 }) },
];
const ip = 'a';
const CALLS = ['consume', 'peek', 'charge', 'refund', 'reset', 'wait'] as const;

describe('a closed limiter', () => {
  it('throws a typed error', () => {
    const limiter = createLimiter({ limits });
    limiter.consume({ ip });
    expect(limiter.close()).toBeUndefined();
    for (const call of CALLS) {
      if (call !== 'wait') expect(() => limiter[call]({ ip }), call).toThrow(TollgateClosedError);
    }
    expect(() => limiter.update('ip', two)).toThrow(TollgateClosedError);
    expect(() => limiter.consume({ ip })).toThrow(/closed.*createLimiter\(\)/);
    expect(() => limiter.consume({ ip })).toThrow(
      expect.objectContaining({ code: 'TOLLGATE_CLOSED' }),
    );
  });

  it('rejects a wait, and every promise where answers are promises', async () => {
    await expect(closedOn(memoryStore()).wait({ ip })).rejects.toThrow(TollgateClosedError);
    const store = new PromisedStore();
    const limiter = createLimiter({ store, limits });
    await limiter.close();
    for (const call of CALLS) {
      await expect(limiter[call]({ ip }), call).rejects.toThrow(TollgateClosedError);
    }
    expect(store.asked).toEqual(['close']);
  });

  it('may be closed again', async () => {
    const limiter = createLimiter({ limits });
    expect(limiter.close()).toBeUndefined();
    expect(limiter.close()).toBeUndefined();
    const store = new PromisedStore();
    const remote = createLimiter({ store, limits });
    await Promise.all([remote.close(), remote.close()]);
    await remote.close();
    expect(store.asked).toEqual(['close']);
  });

  it('frees the slots that it held, and no others', () => {
    const store = memoryStore();
    const [first, second, third] = [1, 2, 3].map(() => createLimiter({ store, limits }));
    const held = first?.consume({ jobs: 'a' });
    second?.consume({ jobs: 'b' });
    expect(third?.peek({ jobs: 'a' }).allowed).toBe(false);
    first?.close();
    expect(third?.consume({ jobs: 'a' }).allowed).toBe(true);
    expect(third?.peek({ jobs: 'b' }).allowed).toBe(false);
    void held?.release();
    expect(third?.peek({ jobs: 'a' }).allowed).toBe(false);
    second?.close();
    third?.close();
  });

  it('lets what is under way be settled and released', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, limits });
    const other = createLimiter({ store, limits });
    const decision = limiter.consume({ ip, jobs: 'a' }, { cost: 2 });
    limiter.close();
    await decision.settle(1);
    await decision.release();
    expect(other.peek({ ip, jobs: 'a' }).verdicts.map(({ remaining }) => remaining)).toEqual([
      1, 1,
    ]);
    other.close();
  });
});

describe('a store', () => {
  it('is closed with the last limiter on it', async () => {
    const store = new PromisedStore();
    const limiters = [1, 2, 3].map(() => createLimiter({ store, limits }));
    for (const limiter of limiters) {
      expect(store.asked).toEqual([]);
      await limiter.close();
    }
    expect(store.asked).toEqual(['close']);
  });

  it('is closed after the slots are freed', async () => {
    const store = new PromisedStore();
    const limiter = createLimiter({ store, limits });
    await limiter.consume({ jobs: 'a' });
    await limiter.close();
    expect(store.asked).toEqual(['consume', 'correct', 'close']);
  });

  it('that fails does not make close fail', async () => {
    const store = new PromisedStore();
    const errors: unknown[] = [];
    const limiter = createLimiter({ store, limits, onStoreError: (error) => errors.push(error) });
    await limiter.consume({ jobs: 'a' });
    store.fault = new Error('gone');
    await expect(limiter.close()).resolves.toBeUndefined();
    expect(errors).toEqual([store.fault, store.fault]);
  });

  it('goes on in memory for a later limiter', () => {
    const store = memoryStore();
    const first = createLimiter({ store, limits });
    first.consume({ ip });
    first.close();
    expect(createLimiter({ store, limits }).peek({ ip }).remaining).toBe(1);
  });
});

function closedOn(store: ReturnType<typeof memoryStore>): ReturnType<typeof createLimiter> {
  const limiter = createLimiter({ store, limits });
  limiter.close();
  return limiter;
}
