import {
  all,
  apiKey,
  bearerToken,
  clientIp,
  custom,
  firstOf,
  fixedWindow,
  type KeyFunction,
  route,
  secret,
  tenant,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { type AppRequest, header } from './app.ts';
import { ask, inTurn, tally } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const user = header('x-user');

describe.each(FRAMEWORKS)('$name', ({ name, serve }) => {
  /** An app behind a trusted proxy with one limit, and the keys that it charges. */
  async function limitedBy(by: KeyFunction<AppRequest>, limit = 2) {
    const { store } = new Clock();
    const keys: string[] = [];
    const policy = fixedWindow({ limit, window: '60s' });
    const server = await serve({
      gates: [
        {
          store,
          limits: [{ name: 'default', policy, by }],
          onDecision: ({ verdicts }) => keys.push(...verdicts.map(({ key }) => key)),
        },
      ],
      routes: [{ path: '/' }, { path: '/users/:id' }, { method: 'POST', path: '/users/:id' }],
      trust: 'loopback',
    });
    return { ...server, store, keys };
  }

  describe('a request without the key', () => {
    test.each<[string, (optional: boolean) => KeyFunction<AppRequest>]>([
      ['an API key', (optional) => apiKey({ optional })],
      ['a bearer token', (optional) => bearerToken({ optional })],
      ['a tenant', (optional) => tenant(user, { optional })],
      [
        'a tenant known later',
        (optional) => tenant(async (request) => user(request), { optional }),
      ],
    ])('%s: is charged to its address, never to one budget for all', async (_, by) => {
      const { url, keys } = await limitedBy(by(false));
      const statuses: number[] = [];
      for (const client of ['203.0.113.1', '203.0.113.2', '203.0.113.3']) {
        statuses.push(...(await inTurn(url, 2, { headers: { 'x-forwarded-for': client } })));
      }
      statuses.push(...(await inTurn(url, 1, { headers: { 'x-forwarded-for': '203.0.113.1' } })));
      expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429]);
      expect([...new Set(keys)]).toEqual(['ip:203.0.113.1', 'ip:203.0.113.2', 'ip:203.0.113.3']);

      const lifted = await limitedBy(by(true));
      expect(await inTurn(lifted.url, 4)).toEqual([200, 200, 200, 200]);
      expect(lifted.store.size).toBe(0);
    });

    it('cannot be mistaken for one with a key that looks like an address', async () => {
      const { url, keys } = await limitedBy(tenant(user), 1);
      const named = { headers: { 'x-user': 'ip:127.0.0.1' } };
      expect(await inTurn(url, 1, named)).toEqual([200]);
      expect(await inTurn(url, 2)).toEqual([200, 429]);
      expect(keys).toEqual(['tenant:ip:127.0.0.1', 'ip:127.0.0.1', 'ip:127.0.0.1']);
    });
  });

  it('never shows an API key, a token or a secret', async () => {
    const text = 'sk-live-4242424242';
    for (const [by, headers] of [
      [apiKey(), { 'x-api-key': text }],
      [apiKey({ header: 'X-Token' }), { 'x-token': text }],
      [bearerToken(), { authorization: `Bearer ${text}` }],
      [secret(custom(user)), { 'x-user': text }],
    ] as const) {
      const { url, keys, gate } = await limitedBy(by as KeyFunction<AppRequest>, 1);
      expect(await inTurn(url, 2, { headers })).toEqual([200, 429]);
      const refusal = await ask(url, { headers });
      expect(`${[...refusal.headers].join()} ${refusal.text}`).not.toContain('4242');
      expect(JSON.stringify(gate.rejections())).not.toContain('4242');
      expect(keys).toHaveLength(3);
      expect(keys.join()).not.toContain('4242');
    }
  });

  it('reads an API key once, however it is sent', async () => {
    const { url } = await limitedBy(apiKey(), 2);
    const twice = new Headers({ 'x-api-key': 'k1' });
    twice.append('x-api-key', 'k2');
    expect(await inTurn(url, 1, { headers: { 'X-API-KEY': 'k1' } })).toEqual([200]);
    expect(await inTurn(url, 1, { headers: { 'x-api-key': ' k1 ' } })).toEqual([200]);
    expect(await inTurn(url, 1, { headers: twice })).toEqual([429]);
    expect(await inTurn(url, 1, { headers: { 'x-api-key': 'k2' } })).toEqual([200]);
  });

  it('keeps combinations apart, whatever is in their parts', async () => {
    const by = all<AppRequest>(custom(user), custom(header('x-tag')));
    const { url, keys } = await limitedBy(by, 1);
    const pairs = [
      ['a|b', 'c'],
      ['a', 'b|c'],
      ['a\\', '|c'],
      ['a\\|', 'c'],
      ['1.2.3.4', '5/x'],
      ['1.2.3.45', '/x'],
      ['a b', 'c%'],
    ] as const;
    for (const [who, tag] of pairs) {
      expect(await inTurn(url, 2, { headers: { 'x-user': who, 'x-tag': tag } })).toEqual([
        200, 429,
      ]);
    }
    expect(new Set(keys).size).toBe(pairs.length);
  });

  it('takes the first key that a request has', async () => {
    const { url, keys } = await limitedBy(firstOf(apiKey({ optional: true }), clientIp()), 1);
    expect(await inTurn(url, 1, { headers: { 'x-api-key': 'k1' } })).toEqual([200]);
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect(keys[1]).toBe('127.0.0.1');
  });

  it('limits keys that are named like members of an object', async () => {
    const { url } = await limitedBy(custom(user));
    for (const who of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'then']) {
      expect(await inTurn(url, 3, { headers: { 'x-user': who } })).toEqual([200, 200, 429]);
    }
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('bounds what a long key takes, and still tells long keys apart', async () => {
    const common = 'x'.repeat(9_000);
    const { url, keys } = await limitedBy(custom(user));
    const statuses: number[] = [];
    for (let i = 0; i < 20; i++) {
      const headers = { 'x-user': `${common}${i}` };
      const replies = [
        await ask(url, { headers }),
        await ask(url, { headers }),
        await ask(url, { headers }),
      ];
      statuses.push(...replies.map(({ status }) => status));
      for (const reply of replies) {
        expect(`${[...reply.headers].join()} ${reply.text}`).not.toContain('xxx');
      }
    }
    expect(tally(statuses)).toEqual({ 200: 40, 429: 20 });
    expect(new Set(keys).size).toBe(20);
    expect(Math.max(...keys.map((key) => Buffer.byteLength(key)))).toBeLessThanOrEqual(256);
  });

  it('bounds what a key of a megabyte takes', async () => {
    const by = custom<AppRequest>((request) => `${'x'.repeat(2 ** 20)}${user(request)}`);
    const { url, keys } = await limitedBy(by);
    const statuses = [
      ...(await inTurn(url, 3, { headers: { 'x-user': 'ada' } })),
      ...(await inTurn(url, 1, { headers: { 'x-user': 'bob' } })),
    ];
    expect(statuses).toEqual([200, 200, 429, 200]);
    expect(Math.max(...keys.map((key) => Buffer.byteLength(key)))).toBeLessThanOrEqual(256);
  });

  it('keys by route, as far as the framework knows it', async () => {
    const { url, keys } = await limitedBy(route(), 100);
    await ask(`${url}/users/1`);
    await ask(`${url}/users/2`, { method: 'HEAD' });
    await ask(`${url}/users/2`, { method: 'POST' });
    await ask(`${url}/nope`);
    // Express knows the route inside the route only.
    const known = name === 'Fastify 5';
    expect(keys).toEqual(
      known
        ? ['GET /users/:id', 'GET /users/:id', 'POST /users/:id', '(no route)']
        : Array<string>(4).fill('(no route)'),
    );
  });

  it('charges one budget for HEAD and GET of a route', async () => {
    const { store } = new Clock();
    const routed = {
      name: 'routed',
      policy: fixedWindow({ limit: 3, window: '60s' }),
      by: route(),
    };
    const { url } = await serve({
      gates: [{ store, limits: [] }],
      routes: [{ path: '/users/:id', rateLimit: { limits: [routed] } }],
    });
    const remaining: (string | null)[] = [];
    for (const method of ['GET', 'HEAD', 'GET', 'HEAD']) {
      const reply = await ask(`${url}/users/1`, { method });
      remaining.push(`${reply.status} ${reply.headers.get('ratelimit-remaining')}`);
    }
    expect(remaining).toEqual(['200 2', '200 1', '200 0', '429 0']);
  });
});
