import { type Decision, fixedWindow, slidingLog, tokenBucket } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { type AppGate, type AppRequest, header, type Route } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const ten = fixedWindow({ limit: 10, window: '60s' });
const units = (request: AppRequest): number => Number(header('x-cost')(request) ?? 1);

function costing(cost: number): RequestInit {
  return { headers: { 'x-cost': `${cost}` } };
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** What remains of the first gate's only limit after each of these paths. */
  async function remainingAfter(gate: AppGate, routes: readonly Route[], paths: readonly string[]) {
    const { url } = await serve({ gates: [gate], routes });
    const remaining: unknown[] = [];
    for (const path of paths) {
      const reply = await ask(`${url}${path}`);
      remaining.push(
        reply.status === 200 ? Number(reply.headers.get('ratelimit-remaining')) : reply.status,
      );
    }
    return remaining;
  }

  it('charges a dearer route its cost, once', async () => {
    const routes = [{ path: '/' }, { path: '/search', rateLimit: { cost: 5 } }];
    const paths = ['/', '/search', '/', '/search', '/', '/', '/', '/'];
    const gate = { store: new Clock().store, policy: ten };
    expect(await remainingAfter(gate, routes, paths)).toEqual([9, 4, 3, 429, 2, 1, 0, 429]);
  });

  it('charges the cost of the route to the limits that have none of their own', async () => {
    const { store } = new Clock();
    const seen: Decision[] = [];
    const { url } = await serve({
      gates: [
        {
          store,
          limits: [
            { name: 'plain', policy: ten },
            { name: 'own', policy: ten, cost: 2 },
            { name: 'made', policy: ten, cost: units },
          ],
        },
      ],
      routes: [
        {
          path: '/',
          rateLimit: { cost: 3 },
          handler: ({ request }) => void seen.push(request.rateLimit as Decision),
        },
      ],
    });
    await ask(url, costing(4));
    const verdicts = seen[0]?.verdicts.map(({ name, remaining }) => [name, remaining]) ?? [];
    expect(Object.fromEntries(verdicts)).toEqual({ plain: 7, own: 8, made: 6 });
  });

  it('tells of the limits in their order, and of all that each was charged', async () => {
    const { store } = new Clock();
    const seen: unknown[] = [];
    const { url } = await serve({
      gates: [
        {
          store,
          limits: [
            { name: 'dearer', policy: ten },
            { name: 'own', policy: ten, cost: 2 },
          ],
        },
      ],
      routes: [
        {
          path: '/',
          rateLimit: { cost: 3 },
          handler: ({ request }) => {
            seen.push(request.rateLimit?.verdicts.map(({ name, cost }) => [name, cost]));
            return {};
          },
        },
      ],
    });
    await ask(url);
    expect(seen).toEqual([
      [
        ['dearer', 3],
        ['own', 2],
      ],
    ]);
  });

  it('lets a route name the limits that it costs more', async () => {
    const { store } = new Clock();
    const limits = [
      { name: 'requests', policy: ten },
      { name: 'tokens', policy: fixedWindow({ limit: 1_000, window: '60s' }), cost: 1 },
    ];
    const { url } = await serve({
      gates: [{ store, limits }],
      routes: [{ path: '/', rateLimit: { cost: { tokens: 400 } } }],
    });
    expect((await ask(url)).headers.get('ratelimit')).toBe(
      '"requests";r=9;t=60, "tokens";r=600;t=60',
    );
    expect((await ask(url)).headers.get('ratelimit')).toBe(
      '"requests";r=8;t=60, "tokens";r=200;t=60',
    );
    const refusal = await ask(url);
    expect(refusal.status).toBe(429);
    expect(JSON.parse(refusal.text)).toHaveProperty('violated-policies', ['tokens']);
  });

  test.each<[string, (request: AppRequest) => number | Promise<number>]>([
    ['at once', units],
    ['later', async (request) => units(request)],
  ])('takes a cost that a function of the route gives %s', async (_, cost) => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, policy: ten }],
      routes: [{ path: '/', rateLimit: { cost } }],
    });
    const statuses: unknown[] = [];
    for (const each of [4, 5, 2, 1, 1]) {
      const reply = await ask(url, costing(each));
      statuses.push([reply.status, reply.headers.get('ratelimit-remaining')]);
    }
    expect(statuses.map((each) => (each as unknown[])[0])).toEqual([200, 200, 429, 200, 429]);
    expect(statuses[3]).toEqual([200, '0']);
  });

  it('takes nothing for a refused request', async () => {
    for (const policy of [
      ten,
      slidingLog({ limit: 10, window: '60s' }),
      tokenBucket({ capacity: 10, rate: 1, per: '1h' }),
    ]) {
      const { store } = new Clock();
      const { url } = await serve({
        gates: [{ store, limits: [{ name: 'units', policy, cost: units }] }],
      });
      const seen: unknown[] = [];
      for (const cost of [8, 5, 2, 1]) {
        const reply = await ask(url, costing(cost));
        seen.push([reply.status, reply.headers.get('ratelimit-remaining')]);
      }
      expect(seen).toEqual([
        [200, '2'],
        [429, '2'],
        [200, '0'],
        [429, '0'],
      ]);
    }
  });

  it('charges nothing for a cost of 0', async () => {
    const routes = [{ path: '/free', rateLimit: { cost: { default: 0 } } }];
    const gate = { store: new Clock().store, limits: [{ name: 'default', policy: ten, cost: 0 }] };
    expect(await remainingAfter(gate, routes, ['/free', '/free'])).toEqual([10, 10]);
  });

  it('reads the plan of the caller', async () => {
    const { store } = new Clock();
    const plans: Record<string, ReturnType<typeof fixedWindow>> = {
      small: fixedWindow({ limit: 1, window: '60s' }),
      large: fixedWindow({ limit: 3, window: '60s' }),
    };
    const plan = {
      name: 'plan',
      by: (request: AppRequest) => header('x-user')(request),
      policy: async (request: AppRequest) => plans[header('x-plan')(request) ?? ''] ?? ten,
    };
    const { url } = await serve({ gates: [{ store, limits: [plan] }] });
    const as = (user: string, name: string): RequestInit => ({
      headers: { 'x-user': user, 'x-plan': name },
    });
    expect(await inTurn(url, 2, as('ada', 'small'))).toEqual([200, 429]);
    expect(await inTurn(url, 4, as('bob', 'large'))).toEqual([200, 200, 200, 429]);
    expect(await inTurn(url, 3, as('ada', 'large'))).toEqual([200, 200, 429]);
  });

  it('lets the handler settle what the request really cost', async () => {
    const { store } = new Clock();
    const tokens = { name: 'tokens', policy: fixedWindow({ limit: 100, window: '60s' }), cost: 60 };
    const { url, gate } = await serve({
      gates: [{ store, limits: [tokens] }],
      routes: [
        {
          path: '/',
          handler: async ({ request }) => {
            await request.rateLimit?.settle(58);
            await request.rateLimit?.settle(0);
            return { body: 'done' };
          },
        },
      ],
    });
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect((await gate.limiter.peek({ tokens: '127.0.0.1' })).remaining).toBe(42);
  });
});
