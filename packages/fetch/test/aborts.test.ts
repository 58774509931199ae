import { createLimiter, leakyBucket, memoryStore, tokenBucket } from '@tollgate/core';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createFetch } from '../src/index.ts';
import { pass, Provider, soon, stopTime, timers, URL_OF_PROVIDER } from './world.ts';

beforeEach(stopTime);

const store = () => memoryStore({ clock: () => Math.round(Date.now() * 1_000) });

/** Answers when told. */
class SlowProvider extends Provider {
  constructor() {
    super(
      (request) =>
        new Promise((resolve, reject) => {
          this.answerNow = () => resolve(new Response('served'));
          request.signal.addEventListener('abort', () => reject(request.signal.reason as Error));
        }),
    );
  }

  answerNow: () => void = () => undefined;
}

const reason = new Error('no longer wanted');

describe('a call that is aborted', () => {
  it('before it begins sends nothing', async () => {
    const provider = Provider.refusing(0, {});
    const fetch = createFetch({ fetch: provider.fetch, pace: true });
    const signal = AbortSignal.abort(reason);
    await expect(fetch(URL_OF_PROVIDER, { signal })).rejects.toBe(reason);
    await expect(fetch(new Request(URL_OF_PROVIDER, { signal }))).rejects.toBe(reason);
    expect(provider.departures).toEqual([]);
  });

  it.each(['token bucket', 'leaky bucket'])(
    'while it waits for its place in a %s gives the place to the next',
    async (kind) => {
      const numbers = { capacity: 1, rate: 1, per: '1s' };
      const policy =
        kind === 'token bucket' ? tokenBucket(numbers) : leakyBucket({ ...numbers, capacity: 2 });
      const limiter = createLimiter({ store: store(), limits: [{ name: 'api', policy }] });
      const provider = Provider.refusing(0, {});
      const fetch = createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' } });
      await soon(fetch(URL_OF_PROVIDER));
      const { signal, abort } = controller();
      const waiting = fetch(URL_OF_PROVIDER, { signal });
      const next = fetch(URL_OF_PROVIDER);
      waiting.catch(() => undefined);
      await pass(100);
      abort();
      await expect(waiting).rejects.toBe(reason);
      await soon(next);
      expect(provider.departures).toHaveLength(2);
      expect(provider.departures[1]).toBeLessThanOrEqual(1_100);
      expect(timers()).toBe(0);
      await pass(60_000);
      expect(limiter.peek({ api: 'a' }).resetAfterMs).toBe(0);
    },
  );

  it('while the server holds it leaves nothing behind', async () => {
    const provider = Provider.refusing(1, { RateLimit: '"a";r=0;t=50' }, 200);
    const fetch = createFetch({ fetch: provider.fetch, pace: true });
    await soon(fetch(URL_OF_PROVIDER));
    const first = controller();
    const second = controller();
    const waiting = [first, second].map(({ signal }) => fetch(URL_OF_PROVIDER, { signal }));
    for (const each of waiting) each.catch(() => undefined);
    await pass(10);
    second.abort();
    first.abort();
    for (const each of waiting) await expect(each).rejects.toBe(reason);
    expect(timers()).toBe(0);
    // Nobody who left stands in the way of who comes later.
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(200);
    expect(provider.departures).toHaveLength(2);
  });

  it('while it backs off is not sent again, and closes the refusal', async () => {
    let cancelled = false;
    const endless = () =>
      new ReadableStream({
        pull: (stream) => stream.enqueue(new Uint8Array(40_000)),
        cancel: () => void (cancelled = true),
      });
    const provider = new Provider(() => new Response(endless(), { status: 503 }));
    const fetch = createFetch({ fetch: provider.fetch });
    const { signal, abort } = controller();
    const call = fetch(URL_OF_PROVIDER, { signal });
    call.catch(() => undefined);
    await pass(20);
    abort();
    await expect(call).rejects.toBe(reason);
    expect(timers()).toBe(0);
    expect(cancelled).toBe(true);
    await pass(60_000);
    expect(provider.departures).toHaveLength(1);
  });

  it('in flight is charged, since the server may have seen it, and does not hold others up', async () => {
    const limiter = createLimiter({
      store: store(),
      limits: [{ name: 'api', policy: tokenBucket({ capacity: 5, rate: 1, per: '1h' }) }],
    });
    const provider = new SlowProvider();
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' }, pace: true });
    const { signal, abort } = controller();
    const call = fetch(URL_OF_PROVIDER, { signal });
    call.catch(() => undefined);
    await pass(20);
    expect(provider.departures).toHaveLength(1);
    abort();
    await expect(call).rejects.toBe(reason);
    expect(timers()).toBe(0);
    expect(limiter.peek({ api: 'a' }).remaining).toBe(4);
    const other = fetch(URL_OF_PROVIDER);
    await pass(20);
    provider.answerNow();
    expect((await other).status).toBe(200);
  });

  it.each(Array.from({ length: 20 }, (_, index) => index))(
    'is charged only if it was sent, however close they come: %i',
    async (turns) => {
      const limiter = createLimiter({
        store: store(),
        limits: [{ name: 'api', policy: tokenBucket({ capacity: 5, rate: 1, per: '1h' }) }],
      });
      const provider = Provider.refusing(0, {});
      const { signal, abort } = controller();
      const later = (left: number): void =>
        left === 0 ? abort() : queueMicrotask(() => later(left - 1));
      const fetch = createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' }, pace: true });
      const call = fetch(URL_OF_PROVIDER, { signal });
      call.catch(() => undefined);
      later(turns);
      await Promise.allSettled([call]);
      await pass(10);
      expect(limiter.peek({ api: 'a' }).remaining).toBe(5 - provider.departures.length);
      expect(timers()).toBe(0);
    },
  );

  it('may share its signal with many others, without a warning of listeners', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    onTestFinished(() => void process.off('warning', note));
    const limiter = createLimiter({
      store: store(),
      limits: [{ name: 'api', policy: tokenBucket({ capacity: 1, rate: 1, per: '1h' }) }],
    });
    const { signal, abort } = controller();
    const waiting = createFetch({ limiter, keys: { api: 'a' }, maxWaitMs: Infinity });
    const backingOff = createFetch({
      fetch: Provider.refusing(Infinity, {}).fetch,
      retry: { budget: false },
    });
    await limiter.wait({ api: 'a' });
    const calls = Array.from({ length: 50 }, (_, index) =>
      (index % 2 === 0 ? waiting : backingOff)(URL_OF_PROVIDER, { signal }),
    );
    const ends = Promise.allSettled(calls);
    await pass(10);
    abort();
    expect(new Set((await ends).map((end) => (end as PromiseRejectedResult).reason))).toEqual(
      new Set([reason]),
    );
    // Warnings come in a turn of their own.
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
    expect(timers()).toBe(0);
  });

  it('cancels a stream that was not sent yet', async () => {
    let cancelledWith: unknown;
    const body = new ReadableStream({ cancel: (why) => void (cancelledWith = why) });
    const init = {
      method: 'POST',
      body,
      duplex: 'half',
      signal: AbortSignal.abort(reason),
    } as const;
    const fetch = createFetch({ fetch: Provider.refusing(0, {}).fetch, pace: true });
    await expect(fetch(URL_OF_PROVIDER, init)).rejects.toBe(reason);
    expect(cancelledWith).toBe(reason);
  });
});

function controller(): { signal: AbortSignal; abort: () => void } {
  const aborter = new AbortController();
  return { signal: aborter.signal, abort: () => aborter.abort(reason) };
}
