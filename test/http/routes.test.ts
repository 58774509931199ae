import { type Decision, everyone, fixedWindow } from '@tollgate/core';
import { describe, expect, it } from 'vitest';
import { type Answer, type Call, header, type Route } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const login = {
  name: 'login',
  by: everyone(),
  policy: fixedWindow({ limit: 2, window: '60s' }),
};

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('asks a route for more than the rest', async () => {
    const { store } = new Clock();
    const { url, gate } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 10, window: '60s' }) }],
      routes: [{ path: '/' }, { method: 'POST', path: '/login', rateLimit: { limits: [login] } }],
    });
    expect(await inTurn(`${url}/login`, 4, { method: 'POST' })).toEqual([200, 200, 429, 429]);
    // The refused requests took nothing from the limit that would have let them through.
    expect((await gate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(8);
    expect(await inTurn(url, 9)).toEqual([...Array<number>(8).fill(200), 429]);
  });

  it('refuses at a route what the rest refuses', async () => {
    const { store } = new Clock();
    const { url, gate } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 1, window: '60s' }) }],
      routes: [{ path: '/login', rateLimit: { limits: [login] } }],
    });
    expect(await inTurn(`${url}/login`, 2)).toEqual([200, 429]);
    expect((await gate.limiter.peek({ login: 'everyone' })).remaining).toBe(1);
  });

  it('names every limit of a request in one answer', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 10, window: '60s' }) }],
      routes: [{ path: '/login', rateLimit: { limits: [login] } }],
    });
    const reply = await ask(`${url}/login`);
    expect(reply.headers.get('ratelimit')).toBe('"default";r=9;t=60, "login";r=1;t=60');
    expect(reply.headers.get('ratelimit-limit')).toBe('2');
    await ask(`${url}/login`);
    const refusal = await ask(`${url}/login`);
    expect(JSON.parse(refusal.text)).toHaveProperty('violated-policies', ['login']);
  });

  it('lets a route stand alone', async () => {
    const { store } = new Clock();
    const { url, gate } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 1, window: '60s' }) }],
      routes: [
        { path: '/' },
        { path: '/health', rateLimit: false },
        { path: '/login', rateLimit: { limits: [login], inherit: false } },
      ],
    });
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect(await inTurn(`${url}/health`, 5)).toEqual([200, 200, 200, 200, 200]);
    expect((await ask(`${url}/health`)).headers.get('ratelimit')).toBeNull();
    expect(await inTurn(`${url}/login`, 3)).toEqual([200, 200, 429]);
    expect((await gate.limiter.peek({ login: 'everyone' })).remaining).toBe(0);
  });

  it('shares a limit among the routes that name it', async () => {
    const { store } = new Clock();
    const group = {
      ...login,
      policy: fixedWindow({ limit: 3, window: '60s' }),
      by: header('x-user'),
    };
    const rateLimit = { limits: [group], inherit: false };
    const { url } = await serve({
      gates: [{ store, limits: [] }],
      routes: [
        { path: '/a', rateLimit },
        { path: '/b', rateLimit: { ...rateLimit } },
      ],
    });
    for (const user of ['ada', 'bob']) {
      const statuses: number[] = [];
      for (let i = 0; i < 6; i++) {
        const path = i % 2 === 0 ? 'a' : 'b';
        statuses.push((await ask(`${url}/${path}`, { headers: { 'x-user': user } })).status);
      }
      expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
    }
  });

  it('limits requests that match no route', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 2, window: '60s' }) }],
    });
    expect(await inTurn(`${url}/nope`, 2)).toEqual([404, 404]);
    const refusal = await ask(`${url}/other?nope`, { method: 'DELETE' });
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
  });

  it.each<[string, readonly Route[]]>([
    ['made by the framework', [{ path: '/' }]],
    ['written by hand', [{ method: 'HEAD', path: '/' }, { path: '/' }]],
    ['of a route that asks for more', [{ path: '/', rateLimit: { limits: [login] } }]],
  ])('charges HEAD as GET: %s', async (_, routes) => {
    const { store } = new Clock();
    const policy = fixedWindow({ limit: 10, window: '60s' });
    const { url, gate } = await serve({ gates: [{ store, policy }], routes });
    for (const method of ['GET', 'HEAD']) expect((await ask(url, { method })).status).toBe(200);
    expect((await gate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(8);
    const { status } = await ask(url, { method: 'HEAD' });
    expect(status).toBe(routes[0]?.rateLimit === undefined ? 200 : 429);
  });

  it('shows handlers the decision', async () => {
    const { store } = new Clock();
    const seen: (Decision | undefined)[] = [];
    const handler = ({ request }: Call): Answer => {
      seen.push(request.rateLimit);
      return {};
    };
    const { url } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 10, window: '60s' }) }],
      routes: [
        { path: '/', handler },
        { path: '/health', rateLimit: false, handler },
        { path: '/login', rateLimit: { limits: [login] }, handler },
      ],
    });
    await ask(url);
    await ask(`${url}/health`);
    await ask(`${url}/login`);
    expect(seen[0]).toMatchObject({ allowed: true, reason: 'ok', limit: 10, remaining: 9 });
    expect(seen[1]).toBeUndefined();
    expect(seen[2]?.verdicts.map(({ name }) => name)).toEqual(['default', 'login']);
    expect(seen[2]?.binding?.name).toBe('login');
  });
});
