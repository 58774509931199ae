import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { TollgateClosedError } from '../src/errors.ts';
import { createLimiter, type Limiter, type WaitOptions } from '../src/limiter.ts';
import { concurrency, fixedWindow, type Policy, tokenBucket } from '../src/policy.ts';
import type { MemoryStore } from '../src/stores/memory.ts';
import { TollgateWaitError } from '../src/waiting.ts';
import { COUNTING } from './counting-policies.ts';
import { Diary, pass, stoppedStore, stopTime } from './fake-time.ts';

beforeEach(stopTime);
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function limiterOf(policy: Policy): Limiter<MemoryStore> {
  return createLimiter({ store: stoppedStore(), limits: [{ name: 'ip', policy }] });
}

const ip = 'a';
const oneASecond = tokenBucket({ capacity: 1, rate: 1, per: '1s' });
const oneAnHour = fixedWindow({ limit: 1, window: '1h' });

/** A limiter whose key `a` has nothing left. */
function spent(policy: Policy): Limiter<MemoryStore> {
  const limiter = limiterOf(policy);
  limiter.consume({ ip });
  return limiter;
}

/** What a wait that ends now rejects with. */
async function rejection(wait: Promise<unknown>): Promise<TollgateWaitError> {
  const error = await Promise.race([
    wait.then(
      () => undefined,
      (reason: unknown) => reason,
    ),
    pass(1),
  ]);
  expect(error).toBeInstanceOf(TollgateWaitError);
  return error as TollgateWaitError;
}

describe.each(COUNTING)('a cost above the quota of a %s', (_, make) => {
  test.each([{}, { maxWaitMs: 0 }, { maxWaitMs: 1e12 }])(
    'is told at once, with %j',
    async (options) => {
      const limiter = limiterOf(make(2));
      const error = await rejection(limiter.wait({ ip }, { ...options, cost: 3 }));
      expect(error.message).toMatch(/This cost can never be admitted; lower the cost or raise/);
      expect(error.decision).toMatchObject({
        allowed: false,
        retryAfterMs: Infinity,
        remaining: 2,
      });
      expect(error).toMatchObject({ name: 'TollgateWaitError', code: 'TOLLGATE_WAIT' });
      expect(limiter.store.size).toBe(0);
    },
  );
});

it('a cost above the quota is told at once to one who stands behind others', async () => {
  const limiter = spent(oneAnHour);
  const abort = new AbortController();
  const first = limiter.wait({ ip }, { signal: abort.signal });
  await rejection(limiter.wait({ ip }, { cost: 2 }));
  await rejection(limiter.wait({ ip }, { cost: 2, maxWaitMs: 1e12 }));
  abort.abort();
  await expect(first).rejects.toThrow();
});

describe('maxWaitMs', () => {
  it('of 0 admits what can be admitted now, and nothing else', async () => {
    const limiter = limiterOf(oneASecond);
    await expect(limiter.wait({ ip }, { maxWaitMs: 0 })).resolves.toMatchObject({ allowed: true });
    const error = await rejection(limiter.wait({ ip }, { maxWaitMs: 0 }));
    expect(error.message).toBe('Cannot be admitted within 0 ms.');
    expect(error.decision).toMatchObject({ retryAfterMs: 1_000 });
  });

  it('that is too short is told at once, first in line or not', async () => {
    const limiter = spent(oneASecond);
    await rejection(limiter.wait({ ip }, { maxWaitMs: 999.999 }));
    const first = limiter.wait({ ip });
    await rejection(limiter.wait({ ip }, { maxWaitMs: 999 }));
    await pass(1_001);
    await expect(first).resolves.toMatchObject({ allowed: true });
  });

  it('that is just long enough is long enough', async () => {
    const limiter = spent(oneASecond);
    const diary = new Diary();
    diary.watch('exact', limiter.wait({ ip }, { maxWaitMs: 1_000 }));
    await pass(1_002);
    expect(diary.notes).toEqual(['exact@1001']);
  });

  it('ends the wait of one who stands behind others, and charges nothing', async () => {
    const limiter = spent(oneASecond);
    const diary = new Diary();
    for (const name of ['1', '2', '3', '4']) {
      diary.watch(name, limiter.wait({ ip }, { maxWaitMs: 2_500 }));
    }
    await pass(2_500);
    expect(diary.notes).toEqual(['1@1001', '2@2002', '3:TollgateWaitError', '4:TollgateWaitError']);
    await pass(502);
    expect(limiter.peek({ ip }).allowed).toBe(true);
  });

  it('waits for a slot until its end, since one may be released at any time', async () => {
    const limiter = limiterOf(concurrency({ limit: 1 }));
    const held = limiter.consume({ ip });
    const diary = new Diary();
    diary.watch('early', limiter.wait({ ip }, { maxWaitMs: 300 }));
    await pass(302);
    expect(diary.notes).toEqual(['early:TollgateWaitError']);
    diary.watch('late', limiter.wait({ ip }, { maxWaitMs: 1_000 }));
    await pass(100);
    await held.release();
    await pass(0);
    expect(diary.notes[1]).toBe('late@402');
    limiter.close();
  });
});

describe('a signal', () => {
  it('ends the wait with its reason, and charges nothing', async () => {
    const limiter = spent(oneASecond);
    const reason = new Error('the client left');
    const abort = new AbortController();
    const wait = limiter.wait({ ip }, { signal: abort.signal });
    const watched = expect(wait).rejects.toBe(reason);
    await pass(400);
    abort.abort(reason);
    await watched;
    await pass(600);
    expect(limiter.peek({ ip }).remaining).toBe(1);
    expect(getEventListeners(abort.signal, 'abort')).toEqual([]);
  });

  it('that was given already ends it before it starts', async () => {
    const limiter = limiterOf(oneASecond);
    const options: WaitOptions = { signal: AbortSignal.abort() };
    await expect(limiter.wait({ ip }, options)).rejects.toThrow(
      expect.objectContaining({ name: 'AbortError' }),
    );
    expect(limiter.store.size).toBe(0);
  });

  it('is let go when the wait is over', async () => {
    const limiter = limiterOf(oneASecond);
    const { signal } = new AbortController();
    await limiter.wait({ ip }, { signal });
    await rejection(limiter.wait({ ip }, { signal, maxWaitMs: 5 }));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('given in the same instant leaves nothing charged', async () => {
    const limiter = limiterOf(oneASecond);
    const abort = new AbortController();
    const wait = limiter.wait({ ip }, { signal: abort.signal });
    abort.abort();
    await expect(wait).rejects.toThrow(expect.objectContaining({ name: 'AbortError' }));
    await pass(0);
    expect(limiter.peek({ ip }).remaining).toBe(1);
  });
});

describe('close', () => {
  it('ends every wait with a typed error', async () => {
    const limiter = spent(oneASecond);
    limiter.consume({ ip: 'b' });
    const waits = ['a', 'a', 'b', 'a'].map((key) =>
      limiter.wait({ ip: key }, { maxWaitMs: 9_000 }),
    );
    const watched = waits.map((wait) => expect(wait).rejects.toThrow(TollgateClosedError));
    await pass(500);
    limiter.close();
    await Promise.all(watched);
  });

  it('ends ten thousand without asking for any of them', async () => {
    const limiter = spent(oneAnHour);
    const waits = Array.from({ length: 10_000 }, () =>
      limiter.wait({ ip }).then(
        () => 'admitted',
        (error: unknown) => (error as Error).name,
      ),
    );
    await pass(0);
    const asked = vi.spyOn(limiter, 'decide');
    limiter.close();
    expect(asked).not.toHaveBeenCalled();
    expect(new Set(await Promise.all(waits))).toEqual(new Set(['TollgateClosedError']));
  });
});
