import { concurrency, fixedWindow } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { ask, inTurn, start, tally, together } from './clients.ts';
import { LateStore } from './late-store.ts';
import { silent } from './log.ts';
import { FRAMEWORKS } from './servers.ts';
import { Turnstile } from './turnstile.ts';

const two = fixedWindow({ limit: 2, window: '60s' });
const ten = fixedWindow({ limit: 10, window: '60s' });

/** What the gates do over a store that answers with promises. */
describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('says the same as over a store that answers at once', async () => {
    const store = new LateStore();
    const { url, gate, errors } = await serve({
      gates: [{ store, policy: two }],
      routes: [{ path: '/' }, { path: '/search', rateLimit: { cost: 2 } }],
    });
    const first = await ask(url);
    expect([first.status, first.headers.get('ratelimit')]).toEqual([200, '"default";r=1;t=60']);
    expect((await ask(`${url}/search`)).status).toBe(429);
    expect((await gate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(1);
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect(errors).toEqual([]);
  });

  it('admits no more at once than one after the other', async () => {
    const { url } = await serve({ gates: [{ store: new LateStore(), policy: ten }] });
    const statuses = (await Promise.all(together(url, 30))).map(({ status }) => status);
    expect(tally(statuses)).toEqual({ 200: 10, 429: 20 });
  });

  it('has given back what earlier gates charged when a refusal is answered', async () => {
    const store = new LateStore();
    const { url, gate } = await serve({
      gates: [
        { store, limits: [{ name: 'first', policy: ten }] },
        { store, limits: [{ name: 'second', policy: two }] },
      ],
    });
    expect(await inTurn(url, 4)).toEqual([200, 200, 429, 429]);
    expect((await gate.limiter.peek({ first: '127.0.0.1' })).remaining).toBe(8);
  });

  it('does not serve a client that left before the store answered, and gives back its charges', async () => {
    let handled = 0;
    const store = new LateStore();
    const slots = { name: 'slots', policy: concurrency({ limit: 3 }) };
    const { url, gate, errors, http } = await serve({
      gates: [{ store, limits: [slots, { name: 'window', policy: ten }] }],
      routes: [{ path: '/', handler: () => ({ body: `${++handled}` }) }],
    });
    const closed = new Promise((resolve) => {
      http.on('connection', (socket) => socket.on('close', resolve));
    });
    store.isHeldUp = true;
    const request = start(url);
    await expect.poll(() => store.underway.length).toBe(1);
    request.destroy();
    await closed;
    store.arrive();
    const left = async (): Promise<unknown> => {
      const { verdicts } = await gate.limiter.peek({ slots: '127.0.0.1', window: '127.0.0.1' });
      return verdicts.map(({ remaining }) => remaining);
    };
    await expect.poll(left).toEqual([3, 10]);
    expect([handled, errors]).toEqual([0, []]);
  });

  it('frees slots', async () => {
    const store = new LateStore();
    const { url, gate } = await serve({
      gates: [{ store, limits: [{ name: 'slots', policy: concurrency({ limit: 1 }) }] }],
    });
    for (let i = 0; i < 4; i++) {
      expect((await ask(url)).status).toBe(200);
      await expect
        .poll(async () => (await gate.limiter.peek({ slots: '127.0.0.1' })).remaining, {
          interval: 2,
        })
        .toBe(1);
    }
  });

  test.each([
    [200, { 200: 20 }],
    [401, { 401: 5, 429: 15 }],
  ])('counts failures at once safely, of requests that end with %s', async (status, expected) => {
    const turnstile = new Turnstile();
    const failures = {
      name: 'failures',
      policy: fixedWindow({ limit: 5, window: '60s' }),
      countOnly: 'failures',
    } as const;
    const { url } = await serve({
      gates: [{ store: new LateStore(), limits: [failures] }],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    const replies = together(url, 20);
    let most = 0;
    const answered = Promise.all(replies);
    let isOver = false;
    void answered.then(() => (isOver = true));
    while (!isOver) {
      await new Promise(setImmediate);
      most = Math.max(most, turnstile.holding);
      turnstile.release(1, status);
    }
    expect(tally((await answered).map((reply) => reply.status))).toEqual(expected);
    expect(most).toBeLessThanOrEqual(5);
  });

  it('answers by the failure policy what a store cannot, whatever it rejects with', async () => {
    const told: unknown[] = [];
    const store = new LateStore();
    const { url, errors } = await serve({
      gates: [{ store, policy: two, onStoreError: (error) => told.push(error) }],
    });
    const fault = new RangeError('a mistake of the store');
    store.fault = fault;
    expect(await inTurn(url, 3)).toEqual([200, 200, 429]);
    expect(told.map((error) => (error as Error).cause)).toEqual([fault, fault, fault]);
    store.fault = undefined;
    expect(await inTurn(url, 3)).toEqual([200, 200, 429]);
    expect(errors).toEqual([]);
  });

  it('gives back without the store what does not count', async () => {
    const store = new LateStore();
    const { url } = await serve({
      gates: [
        {
          store,
          logger: silent,
          limits: [{ name: 'failures', policy: two, countOnly: 'failures' }],
        },
      ],
      routes: [{ path: '/' }, { path: '/wrong', handler: () => ({ status: 401 }) }],
    });
    store.fault = new Error('gone');
    expect(await inTurn(url, 5)).toEqual([200, 200, 200, 200, 200]);
    expect(await inTurn(`${url}/wrong`, 3)).toEqual([401, 401, 429]);
  });

  it('frees without the store the slots taken without it', async () => {
    const store = new LateStore();
    const { url } = await serve({
      gates: [
        { store, logger: silent, limits: [{ name: 'slots', policy: concurrency({ limit: 1 }) }] },
      ],
    });
    store.fault = new Error('gone');
    expect(await inTurn(url, 4)).toEqual([200, 200, 200, 200]);
  });

  it('charges a dearer route the difference without the store, too', async () => {
    const store = new LateStore();
    const { url, gate } = await serve({
      gates: [{ store, logger: silent, policy: ten }],
      routes: [{ path: '/' }, { path: '/search', rateLimit: { cost: 4 } }],
    });
    store.fault = new Error('gone');
    expect(await inTurn(`${url}/search`, 2)).toEqual([200, 200]);
    expect((await gate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(2);
  });
});
