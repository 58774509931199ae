import { concurrency, everyone, fixedWindow } from '@tollgate/core';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { type AppGate, type Route, textStream } from './app.ts';
import { ask, dial, start, together } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { Endless } from './streams.ts';
import { Turnstile } from './turnstile.ts';

const slots = { name: 'slots', by: everyone(), policy: concurrency({ limit: 5 }) };

/** Ways in which a request ends that are over when the client has its answer, or has lost it. */
const ENDINGS: readonly [how: string, route: Omit<Route, 'path'>, init?: RequestInit][] = [
  ['an answer', {}],
  ['an answer to HEAD', {}, { method: 'HEAD' }],
  ['an empty answer', { handler: () => ({ status: 204 }) }],
  ['no change', { handler: () => ({ status: 304 }) }],
  ['a failure', { handler: () => ({ status: 500, body: 'broken' }) }],
  ['a stream', { handler: () => ({ body: textStream('a', 'b', 'c') }) }],
  [
    'an answer of its own',
    { takesOver: true, handler: ({ response }) => void response.end('mine') },
  ],
  ['a broken connection', { takesOver: true, handler: ({ response }) => void response.destroy() }],
  [
    'a thrown error',
    {
      handler: () => {
        throw new Error('broken');
      },
    },
  ],
];

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  async function serving(routes: readonly Route[], gate: AppGate = {}) {
    const { store } = new Clock();
    const server = await serve({ gates: [{ store, limits: [slots], ...gate }], routes });
    const free = async (): Promise<number> =>
      (await server.gate.limiter.peek({ slots: 'everyone' })).remaining;
    return { ...server, store, free };
  }

  it('admits as many at once as there are slots', async () => {
    const turnstile = new Turnstile();
    const { url, free } = await serving([{ path: '/', handler: turnstile.handler }]);
    const held = together(url, 5);
    await expect.poll(() => turnstile.holding).toBe(5);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '1']);
    expect(await free()).toBe(0);
    turnstile.release(1);
    await expect.poll(free).toBe(1);
    const next = ask(url);
    await expect.poll(() => turnstile.arrived).toBe(6);
    turnstile.release(5);
    for (const reply of [...held, next]) expect((await reply).status).toBe(200);
    await expect.poll(free).toBe(5);
  });

  it('tells clients to wait as long as the application says', async () => {
    const turnstile = new Turnstile();
    const { url } = await serving([{ path: '/', handler: turnstile.handler }], {
      limits: [{ ...slots, policy: concurrency({ limit: 1 }) }],
      concurrencyRetryAfter: 7,
    });
    const held = ask(url);
    await expect.poll(() => turnstile.holding).toBe(1);
    expect((await ask(url)).headers.get('retry-after')).toBe('7');
    turnstile.release(1);
    await held;
  });

  test.each(ENDINGS)('frees the slot after %s', async (_, route, init) => {
    const { url, free } = await serving([{ path: '/', ...route }]);
    for (let i = 0; i < 12; i++) {
      await expect.poll(free, { interval: 2 }).toBe(5);
      await ask(url, init).catch(() => undefined);
    }
    await expect.poll(free).toBe(5);
  });

  it('frees the slot of a request that matches no route', async () => {
    const { url, free } = await serving([]);
    for (let i = 0; i < 12; i++) expect((await ask(`${url}/nope`)).status).toBe(404);
    await expect.poll(free).toBe(5);
  });

  it('loses no slot to clients that leave whenever they like', async () => {
    const turnstile = new Turnstile();
    let asked = 0;
    const by = async (): Promise<string> => {
      asked++;
      await new Promise(setImmediate);
      return 'everyone';
    };
    const { url, free } = await serving(
      [
        { path: '/held', handler: turnstile.handler },
        { path: '/stream', handler: () => ({ body: new Endless() }) },
        { path: '/quick' },
      ],
      { limits: [{ ...slots, by }] },
    );
    for (let round = 0; round < 20; round++) {
      const requests = ['held', 'stream', 'quick'].map((path) => start(`${url}/${path}`));
      const [held, stream, quick] = requests as [
        (typeof requests)[0],
        (typeof requests)[0],
        (typeof requests)[0],
      ];
      if (round % 4 === 0) await expect.poll(() => asked, { interval: 1 }).toBeGreaterThan(round);
      if (round % 4 === 1)
        await expect.poll(() => turnstile.holding, { interval: 1 }).toBeGreaterThan(0);
      if (round % 4 === 2) {
        await new Promise<void>((resolve) => {
          stream.on('response', (response) => response.once('data', () => resolve()));
          stream.on('close', resolve);
        });
      }
      for (const request of [quick, stream, held]) request.destroy();
      turnstile.release(turnstile.holding);
      if (round % 4 === 3) await expect.poll(free, { interval: 2 }).toBe(5);
    }
    await expect.poll(free, { timeout: 2_000 }).toBe(5);
    turnstile.release(turnstile.holding);
    const replies = together(`${url}/held`, 5);
    await expect.poll(() => turnstile.holding).toBe(5);
    expect((await ask(`${url}/quick`)).status).toBe(429);
    turnstile.release(5);
    await Promise.all(replies);
  });

  it('does not start the handler of a client that left before it had a slot', async () => {
    let handled = 0;
    let decide: ((key: string) => void) | undefined;
    const by = (): Promise<string> => new Promise((resolve) => (decide = resolve));
    const { url, free, http } = await serving(
      [{ path: '/', handler: () => ({ body: `${++handled}` }) }],
      { limits: [{ ...slots, by }] },
    );
    const closed = new Promise((resolve) =>
      http.on('connection', (socket) => socket.on('close', resolve)),
    );
    const request = start(url);
    await expect.poll(() => decide).toBeDefined();
    request.destroy();
    await closed;
    decide?.('everyone');
    await expect.poll(free).toBe(5);
    expect(handled).toBe(0);
  });

  describe('a response that streams', () => {
    it('holds its slot to the end', async () => {
      const streams: Endless[] = [];
      const handler: Route['handler'] = () => {
        const body = new Endless();
        streams.push(body);
        return { body };
      };
      const { url } = await serving([{ path: '/', handler }], {
        limits: [{ ...slots, policy: concurrency({ limit: 1 }) }],
      });
      const first = await fetch(url);
      expect((await ask(url)).status).toBe(429);
      streams[0]?.say('more\n');
      expect((await ask(url)).status).toBe(429);
      streams[0]?.finish();
      expect(await first.text()).toBe('open\nmore\n');
      const second = await fetch(url);
      expect(second.status).toBe(200);
      streams[1]?.finish();
      await second.text();
    });

    it('frees its slot soon when the client leaves', async () => {
      const { url, free } = await serving([
        { path: '/', handler: () => ({ body: new Endless() }) },
      ]);
      const client = new AbortController();
      await fetch(url, { signal: client.signal });
      expect(await free()).toBe(4);
      client.abort();
      await expect.poll(free, { interval: 5, timeout: 1_000 }).toBe(5);
    });
  });

  it('frees the slots of requests that came together on one connection', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    onTestFinished(() => void process.off('warning', note));
    const turnstile = new Turnstile();
    const { port, free } = await serving([{ path: '/', handler: turnstile.handler }], {
      limits: [{ ...slots, policy: concurrency({ limit: 30 }) }],
    });
    const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
    const patient = await dial(port, get.repeat(20));
    await expect.poll(() => turnstile.holding).toBe(20);
    turnstile.release(20);
    await expect.poll(free).toBe(30);
    patient.destroy();

    const hasty = await dial(port, get.repeat(20));
    await expect.poll(() => turnstile.holding).toBe(20);
    expect(await free()).toBe(10);
    hasty.destroy();
    await expect.poll(free).toBe(30);
    turnstile.release(20);
    expect(warnings).toEqual([]);
  });

  it('takes no slot for a request that another limit refuses', async () => {
    const one = { name: 'one', policy: fixedWindow({ limit: 1, window: '60s' }) };
    const { url, free } = await serving([{ path: '/' }], { limits: [slots, one] });
    expect((await ask(url)).status).toBe(200);
    for (let i = 0; i < 6; i++) expect((await ask(url)).status).toBe(429);
    await expect.poll(free).toBe(5);
  });

  it('frees the slot of a request that a later gate refuses', async () => {
    const { store } = new Clock();
    const one = { name: 'one', policy: fixedWindow({ limit: 1, window: '60s' }) };
    const { url, gate } = await serve({
      gates: [
        { store, limits: [slots] },
        { store, limits: [one] },
      ],
    });
    expect((await ask(url)).status).toBe(200);
    for (let i = 0; i < 6; i++) expect((await ask(url)).status).toBe(429);
    await expect
      .poll(async () => (await gate.limiter.peek({ slots: 'everyone' })).remaining)
      .toBe(5);
  });
});
