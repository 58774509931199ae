import { once } from 'node:events';
import {
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  type Server,
} from 'node:http';
import { type MemoryStore, memoryStore, type Store } from '@tollgate/core';
import type { FastifyInstance } from 'fastify';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { build } from './readme/built.ts';
import { curlsOf, listen, start, takenPort, untilRefused } from './readme/started.ts';

interface Notification {
  readonly to: string;
  readonly provider: 'push' | 'sms';
  readonly message: string;
}

type Result = { sent: true } | { sent: false; refusedBy: string[]; retryAfterMs: number };

interface Sender {
  readonly send: (notification: Notification) => Promise<Result>;
  readonly bounced: (to: string) => void;
  readonly close: () => void;
}

interface Shared {
  readonly store: Store;
  readonly logger: object;
}

/** What each example exports. */
interface Examples {
  'fastify-api.mjs': {
    readonly buildApi: (options: Shared) => Promise<FastifyInstance>;
  };
  'express-login.mjs': {
    readonly buildLogin: (options: Shared) => RequestListener;
  };
  'notifications.mjs': {
    readonly createSender: (options: {
      readonly deliver: (notification: Notification) => Promise<{ parts: number }>;
      readonly store?: Store;
      readonly maxWaitMs?: number;
    }) => Sender;
    readonly buildService: (sender: Sender) => Server;
  };
}

function load<File extends keyof Examples>(file: File): Promise<Examples[File]> {
  return import(new URL(`../examples/${file}`, import.meta.url).href) as Promise<Examples[File]>;
}

const silent = { warn() {}, error() {} };

/** A memory store whose time passes when told. */
function clocked(): { store: MemoryStore; pass: (seconds: number) => void } {
  let now = 1_800_000_000_000_000;
  return {
    store: memoryStore({ clock: () => now }),
    pass: (seconds) => {
      now += Math.round(seconds * 1_000_000);
    },
  };
}

/** Sends requests all at once and counts the answers by status. */
async function tally(
  times: number,
  request: (index: number) => Promise<Response>,
): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  await Promise.all(
    Array.from({ length: times }, async (_, index) => {
      const response = await request(index);
      await response.arrayBuffer();
      counts[response.status] = (counts[response.status] ?? 0) + 1;
    }),
  );
  return counts;
}

async function violated(refusal: Response): Promise<string[]> {
  const body = (await refusal.json()) as { 'violated-policies': string[] };
  return body['violated-policies'];
}

describe('the API on Fastify', () => {
  async function startApi(): Promise<{
    get: (path: string, key?: string) => Promise<Response>;
    pass: (seconds: number) => void;
  }> {
    const { store, pass } = clocked();
    const { buildApi } = await load('fastify-api.mjs');
    const app = await buildApi({ store, logger: silent });
    onTestFinished(() => app.close());
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return {
      get: (path, key) =>
        fetch(`${url}${path}`, key === undefined ? {} : { headers: { 'X-API-Key': key } }),
      pass,
    };
  }

  it('admits ten anonymous requests at once and one more after Retry-After', async () => {
    const { get, pass } = await startApi();
    expect(await tally(15, () => get('/quotes'))).toEqual({ 200: 10, 429: 5 });
    const refusal = await get('/quotes');
    expect(refusal.headers.get('retry-after')).toBe('6');
    expect(await violated(refusal)).toEqual(['tenant']);
    pass(5.999_999);
    expect((await get('/quotes')).status).toBe(429);
    pass(0.000_001);
    expect(await tally(2, () => get('/quotes'))).toEqual({ 200: 1, 429: 1 });
  });

  it('keeps one key from bursting, whatever its plan', async () => {
    const { get } = await startApi();
    expect(await tally(25, () => get('/quotes', 'key-birch'))).toEqual({ 200: 20, 429: 5 });
    expect(await violated(await get('/quotes', 'key-birch'))).toEqual(['key']);
    expect((await get('/quotes', 'key-acme-web')).status).toBe(200);
  });

  it('shares a budget among the keys of a tenant', async () => {
    const { get } = await startApi();
    const keys = ['key-acme-web', 'key-acme-batch'];
    const exports = await tally(10, (index) => get('/export?days=70', keys[index % 2]));
    expect(exports).toEqual({ 200: 10 });
    for (const key of keys) expect(await violated(await get('/quotes', key))).toEqual(['tenant']);
    expect((await get('/quotes', 'key-birch')).status).toBe(200);
  });

  it('charges dearer routes more, and the address once a request', async () => {
    const { get } = await startApi();
    const search = await get('/search');
    expect(search.headers.get('ratelimit')?.replaceAll(/;t=\d+/g, '')).toBe(
      '"address";r=299, "key";r=15, "tenant";r=5',
    );
    const weeks = await get('/export?days=15');
    expect(weeks.headers.get('ratelimit')?.replaceAll(/;t=\d+/g, '')).toBe(
      '"address";r=298, "key";r=14, "tenant";r=2',
    );
    expect(await weeks.json()).toEqual({ weeks: 3 });
    expect(await tally(3, () => get('/export?days=nonsense'))).toEqual({ 200: 2, 429: 1 });
  });

  it('holds those who invent keys by their address', async () => {
    const { get } = await startApi();
    const invented = await tally(320, (index) => get('/quotes', `invented-${index}`));
    expect(invented).toEqual({ 401: 300, 429: 20 });
  });

  it('never limits the health check', async () => {
    const { get } = await startApi();
    await tally(15, () => get('/quotes'));
    expect(await tally(50, () => get('/health'))).toEqual({ 200: 50 });
    expect((await get('/health')).headers.has('ratelimit')).toBe(false);
  });
});

describe('the logins on Express', () => {
  async function startLogin(): Promise<{
    login: (account: string, password: string) => Promise<Response>;
    read: () => Promise<Response>;
    pass: (seconds: number) => void;
  }> {
    const { store, pass } = clocked();
    const { buildLogin } = await load('express-login.mjs');
    const url = await listen(createServer(buildLogin({ store, logger: silent })));
    return {
      login: (account, password) =>
        fetch(`${url}/login`, {
          method: 'POST',
          body: new URLSearchParams({ account, password }),
        }),
      read: () => fetch(`${url}/articles`),
      pass,
    };
  }

  it('answers five wrong passwords, however many come at once', async () => {
    const { login, pass } = await startLogin();
    expect(await tally(20, () => login('ada', 'guess'))).toEqual({ 401: 5, 429: 15 });
    const refusal = await login(' ADA ', 'lovelace');
    expect(refusal.headers.get('retry-after')).toBe('900');
    expect(await violated(refusal)).toEqual(['wrong-password']);
    expect((await login('grace', 'guess')).status).toBe(401);
    pass(900);
    expect((await login('ada', 'lovelace')).status).toBe(200);
  });

  it('takes nothing for right passwords', async () => {
    const { login } = await startLogin();
    expect(await tally(20, () => login('ada', 'lovelace'))).toEqual({ 200: 20 });
    expect(await tally(6, () => login('ada', 'guess'))).toEqual({ 401: 5, 429: 1 });
  });

  it('stops an address that tries many accounts', async () => {
    const { login } = await startLogin();
    const guesses = await tally(40, (index) => login(`account-${index}`, 'guess'));
    expect(guesses).toEqual({ 401: 30, 429: 10 });
    expect(await violated(await login('another', 'guess'))).toEqual(['many-accounts']);
  });

  it('counts a login without an account, and reads loosely', async () => {
    const { login, read, pass } = await startLogin();
    expect(await tally(6, () => login('', ''))).toEqual({ 401: 5, 429: 1 });
    expect(await tally(60, read)).toEqual({ 200: 55, 429: 5 });
    expect((await read()).headers.get('retry-after')).toBe('1');
    pass(0.2);
    expect(await tally(2, read)).toEqual({ 200: 1, 429: 1 });
  });
});

describe('the sender of notifications', () => {
  const message = 'Your code is 123456';

  it('charges the user, the provider and all together, or nobody', async () => {
    const { createSender } = await load('notifications.mjs');
    const { store } = clocked();
    const sender = createSender({ store, maxWaitMs: 100, deliver: async () => ({ parts: 1 }) });
    const send = (to: string): Promise<Result> => sender.send({ to, provider: 'sms', message });
    for (let i = 0; i < 5; i++) expect(await send('ada')).toEqual({ sent: true });
    const refused = { sent: false, refusedBy: ['user'], retryAfterMs: 3_600_000 };
    for (let i = 0; i < 50; i++) expect(await send('ada')).toEqual(refused);
    // Ten at once go to the provider; fifty refusals took none of its ten.
    for (let i = 0; i < 5; i++) expect(await send('grace')).toEqual({ sent: true });
    expect(await send('hal')).toEqual({
      sent: false,
      refusedBy: ['provider'],
      retryAfterMs: 200,
    });
    sender.close();
  });

  it('waits for its turn, in order of arrival', async () => {
    const { createSender } = await load('notifications.mjs');
    const delivered: string[] = [];
    const sender = createSender({
      deliver: async ({ to }) => {
        delivered.push(to);
        return { parts: 1 };
      },
    });
    const users = Array.from({ length: 12 }, (_, index) => `user-${index}`);
    const started = performance.now();
    const results = await Promise.all(
      users.map((to) => sender.send({ to, provider: 'sms', message })),
    );
    // Ten at once, then five a second; the clock of the store counts whole milliseconds.
    expect(performance.now() - started).toBeGreaterThan(397);
    expect(results).toEqual(users.map(() => ({ sent: true })));
    expect(delivered).toEqual(users);
    sender.close();
  });

  it('gives the user back what failed or bounced, and settles for the parts that were sent', async () => {
    const { createSender } = await load('notifications.mjs');
    const { store } = clocked();
    let isDown = true;
    const sender = createSender({
      store,
      maxWaitMs: 100,
      deliver: async () => {
        if (isDown) throw new Error('The provider is down.');
        return { parts: 1 };
      },
    });
    // 140 characters are two parts at most, and here turn out to be one.
    const send = (): Promise<Result> =>
      sender.send({ to: 'ada', provider: 'push', message: 'x'.repeat(140) });
    for (let i = 0; i < 7; i++) await expect(send()).rejects.toThrow('The provider is down.');
    isDown = false;
    for (let i = 0; i < 5; i++) expect(await send()).toEqual({ sent: true });
    expect(await send()).toMatchObject({ sent: false, refusedBy: ['user'] });
    sender.bounced('ada');
    expect(await send()).toEqual({ sent: true });
    // Of the provider's 50: two for each of seven calls that failed, one for each of six sent.
    const others = Array.from({ length: 30 }, (_, index) =>
      sender.send({ to: `user-${index}`, provider: 'push', message: 'Hello' }),
    );
    expect(await Promise.all(others)).toEqual(others.map(() => ({ sent: true })));
    expect(await sender.send({ to: 'hal', provider: 'push', message })).toMatchObject({
      refusedBy: ['provider'],
    });
    sender.close();
  });

  it('answers over HTTP', async () => {
    const { buildService, createSender } = await load('notifications.mjs');
    const { store } = clocked();
    const sender = createSender({
      store,
      deliver: async ({ to }) => {
        if (to === 'nobody') throw new Error('No such subscriber.');
        return { parts: 1 };
      },
    });
    const url = await listen(buildService(sender));
    const post = (path: string): Promise<Response> =>
      fetch(`${url}${path}`, { method: 'POST', body: message });
    const { refusal, admitted } = await untilRefused(() => post('/send?to=ada&provider=push'), 9);
    expect(admitted).toBe(5);
    expect(refusal.headers.get('retry-after')).toBe('3600');
    expect((await post('/send?to=nobody&provider=push')).status).toBe(502);
    expect((await post('/send?to=ada&provider=constructor')).status).toBe(400);
    expect((await post('/send?provider=sms')).status).toBe(400);
    expect((await post('/')).status).toBe(404);
    sender.close();
  });
});

/** The status of an answer to a request that names another host, which `fetch` does not do. */
async function statusAs(host: string, url: string): Promise<number | undefined> {
  const [answer] = (await once(get(url, { headers: { host } }), 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
}

describe('started directly', () => {
  beforeAll(build, 180_000);

  it.each([
    ['fastify-api.mjs', 10],
    ['express-login.mjs', 5],
    ['notifications.mjs', 5],
  ])('%s serves, refuses and stops', async (file, most) => {
    const { output, interrupt } = await start(file, 'Ctrl-C stops');
    const [request] = curlsOf(output());
    if (request === undefined) throw new Error(`No curl line in:\n${output()}`);
    const { refusal, admitted } = await untilRefused(request, 100);
    expect(admitted).toBe(most);
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await interrupt()).toBe(0);
    expect(output()).toContain('Stopping.');
  });

  it('fastify-api.mjs listens on the port of PORT, and says so when that is taken', async () => {
    const PORT = await takenPort();
    const { output, ended } = await start('fastify-api.mjs', 'Ctrl-C stops', { PORT });
    expect(await ended).toBe(1);
    expect(output()).toBe(
      `Port ${PORT} is taken. Set PORT to another, or leave it out for a free one.\n`,
    );
  });

  it('the demo shows a burst, and refuses its first curl line within 100 requests', async () => {
    const { output, interrupt } = await start('demo.mjs', 'Ctrl-C stops');
    const text = output();
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
    const [heading = ''] = /^ +Request +Sent +Admitted +Refused +Retry-After, s$/m.exec(text) ?? [];
    const rows = [...text.matchAll(/^ {2}(Fastify|Express) .*?(\d+) +(\d+) +(\d+) +(\d+)$/gm)];
    expect(rows.map(([, server]) => server)).toEqual(['Fastify', 'Fastify', 'Express', 'Express']);
    for (const [row, , ...numbers] of rows) {
      expect(row).toHaveLength(heading.length);
      const [sent, admitted = 0, refused = 0, retryAfter] = numbers.map(Number);
      expect(admitted + refused).toBe(sent);
      expect(admitted).toBeGreaterThan(0);
      expect(refused).toBeGreaterThan(0);
      expect(retryAfter).toBeGreaterThanOrEqual(1);
    }
    expect(text).toMatch(/^ +"wrong-password";q=5;w=900 +"wrong-password";r=0;t=\d+$/m);

    // The page is for browsers on this machine: not through a proxy, nor by a name that another site points here.
    const pages = [...text.matchAll(/^ {2}(http:\/\/127\.0\.0\.1:\d+\/tollgate)$/gm)];
    expect(pages).toHaveLength(2);
    for (const [, url = ''] of pages) {
      expect((await fetch(url)).status).toBe(200);
      expect((await fetch(url, { headers: { 'X-Forwarded-For': '203.0.113.7' } })).status).toBe(
        403,
      );
      expect(await statusAs('attacker.example', url)).toBe(403);
      const state = (await (await fetch(`${url}/api/state`)).json()) as {
        readonly limits: readonly { readonly totals: { readonly refused: number } }[];
      };
      expect(state.limits.filter(({ totals }) => totals.refused > 0)).not.toEqual([]);
    }

    const requests = curlsOf(text);
    const [first] = requests;
    if (first === undefined) throw new Error(`No curl line in:\n${text}`);
    const { refusal, admitted } = await untilRefused(first, 100);
    expect(admitted).toBeGreaterThanOrEqual(10);
    expect(refusal.headers.get('retry-after')).toMatch(/^[1-6]$/);
    const others = await Promise.all(requests.slice(1).map((request) => request()));
    expect(others.map(({ status }) => status).filter((status) => status >= 500)).toEqual([]);
    expect(await interrupt()).toBe(0);
  });

  it.each(['FASTIFY_PORT', 'EXPRESS_PORT'])('the demo says when %s is taken', async (variable) => {
    const port = await takenPort();
    const { output, ended } = await start('demo.mjs', 'Ctrl-C stops', { [variable]: port });
    expect(await ended).toBe(1);
    expect(output()).toBe(
      `Port ${port} is taken. Set ${variable} to another, or leave it out for a free one.\n`,
    );
  });
});
