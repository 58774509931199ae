import {
  concurrency,
  createLimiter,
  type LimitOptions,
  memoryStore,
  tokenBucket,
} from '@tollgate/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { createFetch, outcomeOf } from '../src/index.ts';
import { Diary, pass, Provider, soon, stopTime, URL_OF_PROVIDER } from './world.ts';

beforeEach(stopTime);

function limiterOf(...limits: readonly LimitOptions[]) {
  return createLimiter({
    store: memoryStore({ clock: () => Math.round(Date.now() * 1_000) }),
    limits,
  });
}

const perSecond = (rate: number, capacity = 1) => tokenBucket({ capacity, rate, per: '1s' });

describe('a limiter of the caller', () => {
  it('holds each request until it has a place, in order', async () => {
    const limiter = limiterOf({ name: 'api', policy: perSecond(10) });
    const provider = Provider.refusing(0, {});
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' } });
    const paths = Array.from({ length: 8 }, (_, index) => `${index}`);
    await soon(Promise.all(paths.map((body) => fetch(URL_OF_PROVIDER, { method: 'POST', body }))));
    expect(provider.bodies).toEqual(paths);
    for (const [index, ms] of provider.departures.entries()) {
      expect(ms).toBeGreaterThanOrEqual(index * 100);
      expect(ms).toBeLessThanOrEqual(index * 100 + 20);
    }
  });

  it('is shared by all fetches that use it', async () => {
    const limiter = limiterOf({ name: 'api', policy: perSecond(10) });
    const provider = Provider.refusing(0, {});
    const fetches = Array.from({ length: 5 }, () =>
      createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' } }),
    );
    await soon(
      Promise.all(fetches.flatMap((fetch) => [fetch(URL_OF_PROVIDER), fetch(URL_OF_PROVIDER)])),
    );
    expect(provider.departures.at(-1)).toBeGreaterThanOrEqual(900);
  });

  it('charges by key and cost, which may be functions of the request and its body', async () => {
    const limiter = limiterOf(
      { name: 'host', policy: perSecond(1, 100) },
      { name: 'letters', policy: perSecond(1, 100) },
    );
    const provider = Provider.refusing(0, {});
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys: async ({ url, headers }) => ({
        host: new URL(url).hostname,
        letters: headers.get('x-account') ?? undefined,
      }),
      cost: async (request) => ({ letters: (await request.text()).length }),
    });
    const init = { method: 'POST', body: 'hello', headers: { 'X-Account': 'ada' } };
    await fetch(URL_OF_PROVIDER, init);
    await fetch(new Request(URL_OF_PROVIDER, init));
    await fetch(new URL(URL_OF_PROVIDER), { method: 'PUT', body: 'unseen' });
    expect(provider.bodies).toEqual(['hello', 'hello', 'unseen']);
    expect(limiter.peek({ host: 'provider.example' }).remaining).toBe(97);
    expect(limiter.peek({ letters: 'ada' }).remaining).toBe(90);
  });

  it('does not apply where there is no key', async () => {
    const limiter = limiterOf({ name: 'api', policy: perSecond(1) });
    const provider = Provider.refusing(0, {});
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys: () => undefined });
    await Promise.all([fetch(URL_OF_PROVIDER), fetch(URL_OF_PROVIDER)]);
    expect(provider.departures).toEqual([0, 0]);
  });

  it('rejects at once what cannot have a place in time, and sends nothing', async () => {
    const limiter = limiterOf({ name: 'api', policy: perSecond(1) });
    const provider = Provider.refusing(0, {});
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys: { api: 'a' },
      cost: (request) => (request.method === 'PUT' ? 2 : 1),
      maxWaitMs: 500,
    });
    await fetch(URL_OF_PROVIDER);
    await expect(fetch(URL_OF_PROVIDER)).rejects.toMatchObject({ code: 'TOLLGATE_WAIT' });
    // A cost above the quota has no place ever.
    await expect(fetch(URL_OF_PROVIDER, { method: 'PUT' })).rejects.toMatchObject({
      code: 'TOLLGATE_WAIT',
    });
    expect(provider.departures).toEqual([0]);
    await pass(501);
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(200);
  });

  it.each([false, true])(
    'takes a place that is free even if it must not wait, with pace %s',
    async (pace) => {
      const limiter = limiterOf({ name: 'api', policy: perSecond(1, 2) });
      const provider = Provider.refusing(0, {});
      const options = { fetch: provider.fetch, limiter, keys: { api: 'a' }, maxWaitMs: 0, pace };
      const fetch = createFetch(options);
      const { signal } = new AbortController();
      // Some time passes before it comes to that.
      const costly = createFetch({ ...options, cost: async () => (await pass(30), 1) });
      expect((await costly(URL_OF_PROVIDER, { signal })).status).toBe(200);
      expect((await fetch(URL_OF_PROVIDER)).status).toBe(200);
      await expect(soon(fetch(URL_OF_PROVIDER))).rejects.toMatchObject({ code: 'TOLLGATE_WAIT' });
    },
  );

  it('admits retries too: each attempt takes a place', async () => {
    const limiter = limiterOf({ name: 'api', policy: perSecond(1, 2) });
    const provider = Provider.refusing(2, {});
    const retry = { baseMs: 10 };
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys: { api: 'a' }, retry });
    expect((await soon(fetch(URL_OF_PROVIDER))).status).toBe(200);
    expect(provider.departures[2]).toBeGreaterThanOrEqual(1_000);
  });

  it('hands back the refusal when a retry has no place in time', async () => {
    const limiter = limiterOf({
      name: 'api',
      policy: tokenBucket({ capacity: 1, rate: 1, per: '1h' }),
    });
    const provider = Provider.refusing(Infinity, { 'Retry-After': '2' });
    const diary = new Diary();
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys: { api: 'a' },
      ...diary.observers,
    });
    const response = await soon(fetch(URL_OF_PROVIDER));
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('2');
    expect(await response.text()).toBe('refused');
    expect(outcomeOf(response)).toEqual({ attempts: 1, reason: 'place', serverMs: 2_000 });
    expect(diary.givenUp).toMatchObject([{ reason: 'place', attempt: 1 }]);
  });

  it('is not charged for a call that the platform would not send', async () => {
    const limiter = limiterOf({ name: 'api', policy: perSecond(1, 5) });
    const fetch = createFetch({
      fetch: Provider.refusing(0, {}).fetch,
      limiter,
      keys: { api: 'a' },
    });
    const bodyOfGet: RequestInit = { body: 'x' };
    const used = new Request(URL_OF_PROVIDER, { method: 'POST', body: 'x' });
    await used.text();
    await expect(fetch('no address')).rejects.toThrow(TypeError);
    await expect(fetch(URL_OF_PROVIDER, bodyOfGet)).rejects.toThrow(TypeError);
    await expect(fetch(URL_OF_PROVIDER, { method: 'no method' })).rejects.toThrow(TypeError);
    await expect(fetch(used)).rejects.toThrow(TypeError);
    expect(limiter.peek({ api: 'a' }).remaining).toBe(5);
  });
});

describe('a slot of a concurrency limit', () => {
  const inFlight = { name: 'in-flight', policy: concurrency({ limit: 2 }) };
  const keys = { 'in-flight': 'a' };

  it('is held until the body is read, left, or there is none', async () => {
    const limiter = limiterOf(inFlight);
    const provider = new Provider((_request, nth) =>
      nth === 2 ? new Response(null, { status: 204 }) : new Response('served'),
    );
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys });
    const free = (): number => limiter.peek(keys).remaining;
    const [first, second] = [await fetch(URL_OF_PROVIDER), await fetch(URL_OF_PROVIDER)];
    expect(free()).toBe(0);
    expect(await first.text()).toBe('served');
    expect(free()).toBe(1);
    await second.body?.cancel();
    expect(free()).toBe(2);
    await fetch(URL_OF_PROVIDER);
    expect(free()).toBe(2);
  });

  it('is free while a refusal is waited for, and after a failure', async () => {
    const limiter = limiterOf(inFlight);
    const provider = new Provider((_request, nth) => {
      if (nth === 0)
        return new Response('refused', { status: 429, headers: { 'Retry-After': '5' } });
      throw new TypeError('fetch failed');
    });
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys });
    const call = fetch(URL_OF_PROVIDER);
    call.catch(() => undefined);
    await pass(100);
    expect(limiter.peek(keys).remaining).toBe(2);
    await expect(soon(call)).rejects.toThrow('fetch failed');
    expect(limiter.peek(keys).remaining).toBe(2);
  });

  it('lets a waiting request go as soon as it is free', async () => {
    const limiter = limiterOf(inFlight);
    const provider = Provider.refusing(0, {});
    const fetch = createFetch({ fetch: provider.fetch, limiter, keys });
    const [first] = [await fetch(URL_OF_PROVIDER), await fetch(URL_OF_PROVIDER)];
    const third = fetch(URL_OF_PROVIDER);
    await pass(300);
    expect(provider.departures).toHaveLength(2);
    await first.text();
    await pass(10);
    expect(provider.departures).toHaveLength(3);
    await (await third).text();
  });
});
