import { type CountOnly, fixedWindow, type Logger } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { type Handler, type Route, textStream } from './app.ts';
import { ask, inTurn, start } from './clients.ts';
import { Clock } from './clock.ts';
import { Log, silent } from './log.ts';
import { FRAMEWORKS } from './servers.ts';
import { Endless } from './streams.ts';
import { Turnstile } from './turnstile.ts';

const policy = fixedWindow({ limit: 10, window: '60s' });

function answering(status: number, body?: string): Handler {
  return () => ({ status, ...(body !== undefined && { body }) });
}

/** A way in which a request can end, and what it counts as. */
interface Outcome {
  readonly how: string;
  readonly failure: boolean;
  readonly route: Omit<Route, 'path'>;
  /** Default asks and reads the answer. */
  readonly act?: (url: string) => Promise<unknown>;
}

/** Leaves as soon as the first bytes of the body are there. */
async function leaveWithinBody(url: string): Promise<void> {
  const request = start(url);
  await new Promise((resolve) => {
    request.on('response', (response) => response.once('data', resolve));
  });
  request.destroy();
}

const OUTCOMES: readonly Outcome[] = [
  { how: '200', failure: false, route: { handler: answering(200, 'fine') } },
  { how: '204', failure: false, route: { handler: answering(204) } },
  { how: '302', failure: false, route: { handler: answering(302) } },
  { how: '304', failure: false, route: { handler: answering(304) } },
  { how: '399', failure: false, route: { handler: answering(399) } },
  { how: '400', failure: true, route: { handler: answering(400, 'bad') } },
  { how: '401', failure: true, route: { handler: answering(401) } },
  { how: '500', failure: true, route: { handler: answering(500) } },
  {
    how: 'a thrown error',
    failure: true,
    route: {
      handler: () => {
        throw new Error('broken');
      },
    },
  },
  {
    how: 'a rejection',
    failure: true,
    route: { handler: () => Promise.reject(new Error('broken')) },
  },
  {
    how: 'HEAD',
    failure: false,
    route: { handler: answering(200, 'fine') },
    act: (url) => ask(url, { method: 'HEAD' }),
  },
  {
    how: 'a whole stream',
    failure: false,
    route: { handler: () => ({ body: textStream('a', 'b') }) },
  },
  {
    how: 'an answer of the handler itself',
    failure: false,
    route: { takesOver: true, handler: ({ response }) => void response.end('mine') },
  },
  {
    how: 'a client that leaves before the answer',
    failure: true,
    route: {
      handler: ({ response }) => new Promise((resolve) => response.on('close', () => resolve({}))),
    },
    act: async (url) => {
      const request = start(url);
      await expect.poll(() => request.socket?.bytesWritten ?? 0).toBeGreaterThan(0);
      request.destroy();
    },
  },
  {
    how: 'a client that leaves within the body',
    failure: true,
    route: { handler: () => ({ body: new Endless() }) },
    act: leaveWithinBody,
  },
  {
    how: 'a server that breaks off',
    failure: true,
    route: { takesOver: true, handler: ({ response }) => void response.destroy() },
    act: (url) => ask(url).catch(() => undefined),
  },
];

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** An app whose budget of 10 has 3 units spent, and a way to read what remains. */
  async function serving(
    countOnly: CountOnly,
    route: Omit<Route, 'path'>,
    logger: Logger = silent,
  ) {
    const { store } = new Clock();
    const server = await serve({
      gates: [{ store, logger, limits: [{ name: 'outcomes', policy, countOnly }] }],
      routes: [{ path: '/', ...route }],
    });
    const { limiter } = server.gate;
    await limiter.charge({ outcomes: '127.0.0.1' }, 3);
    const remaining = async (): Promise<number> =>
      (await limiter.peek({ outcomes: '127.0.0.1' })).remaining;
    return { ...server, remaining };
  }

  describe.each<CountOnly & string>(['failures', 'successes'])('counting %s', (countOnly) => {
    test.each(OUTCOMES)('settles $how once', async ({ failure, route, act = ask }) => {
      const { url, remaining } = await serving(countOnly, route);
      const counts = failure === (countOnly === 'failures');
      for (const times of [1, 2]) {
        await act(url);
        await expect.poll(remaining, { interval: 5 }).toBe(counts ? 7 - times : 7);
      }
    });
  });

  it('counts what the application says', async () => {
    const statuses = [200, 422, 500, 422, 404];
    const { url, remaining } = await serving((status) => status === 422, {
      handler: () => ({ status: statuses.shift() ?? 200 }),
    });
    expect(await inTurn(url, 5)).toEqual([200, 422, 500, 422, 404]);
    await expect.poll(remaining).toBe(5);
  });

  test.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['forgets to return', () => undefined],
    ['answers later', async () => false],
  ])('takes every outcome for one that counts while the application %s', async (_, countOnly) => {
    const log = new Log();
    const { url, remaining } = await serving(countOnly as () => boolean, {}, log);
    expect(await inTurn(url, 2)).toEqual([200, 200]);
    await expect.poll(remaining).toBe(5);
    await expect.poll(() => log.faulty).toContain('outcomes');
  });

  it('refuses once real failures have filled the budget, whoever asks', async () => {
    const { store } = new Clock();
    let status = 401;
    const login = {
      name: 'login',
      policy: fixedWindow({ limit: 2, window: '60s' }),
      countOnly: 'failures',
    } as const;
    const { url } = await serve({
      gates: [{ store, limits: [login] }],
      routes: [{ path: '/', handler: () => ({ status }) }],
    });
    expect(await inTurn(url, 1)).toEqual([401]);
    status = 200;
    expect(await inTurn(url, 5)).toEqual([200, 200, 200, 200, 200]);
    status = 401;
    expect(await inTurn(url, 2)).toEqual([401, 429]);
    status = 200;
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
  });

  it('gives back nothing of a window that is over', async () => {
    const clock = new Clock();
    const turnstile = new Turnstile();
    const limit = { name: 'outcomes', policy, countOnly: 'failures' } as const;
    const { url, gate } = await serve({
      gates: [{ store: clock.store, limits: [limit] }],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    clock.at(59_900);
    const early = ask(url);
    await expect.poll(() => turnstile.holding).toBe(1);
    clock.at(60_100);
    const late = ask(url);
    await expect.poll(() => turnstile.holding).toBe(2);
    turnstile.release(1, 200);
    turnstile.release(1, 500);
    expect([(await early).status, (await late).status]).toEqual([200, 500]);
    const next = ask(url);
    await expect.poll(() => turnstile.holding).toBe(1);
    expect((await gate.limiter.peek({ outcomes: '127.0.0.1' })).remaining).toBe(8);
    turnstile.release(1);
    await next;
  });

  it('keeps what the handler has settled', async () => {
    const { url, remaining } = await serving('failures', {
      handler: async ({ request }) => {
        await request.rateLimit?.settle(2);
        return { status: 200 };
      },
    });
    await ask(url);
    await expect.poll(remaining).toBe(5);
  });
});
