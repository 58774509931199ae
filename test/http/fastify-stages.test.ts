import { createLimiter, type Decision, fixedWindow, tenant } from '@tollgate/core';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance, type FastifyRequest } from 'fastify';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ask, inTurn, start } from './clients.ts';
import { Clock } from './clock.ts';
import { silent } from './log.ts';

const user = (request: FastifyRequest): string | undefined =>
  (request as FastifyRequest & { user?: string }).user;

/** An app that counts how often it parses a body and finds out who the caller is. */
function counting(): {
  app: FastifyInstance;
  counts: { auth: number; parsed: number; handled: number };
} {
  const app = fastify({ forceCloseConnections: true, bodyLimit: 2 ** 21 });
  onTestFinished(() => app.close());
  const counts = { auth: 0, parsed: 0, handled: 0 };
  app.addContentTypeParser('text/plain', { parseAs: 'string' }, (_request, body, done) => {
    counts.parsed++;
    done(null, body);
  });
  app.decorateRequest('user', undefined);
  return { app, counts };
}

function addAuth(app: FastifyInstance, counts: { auth: number }): void {
  app.addHook('preValidation', async (request) => {
    counts.auth++;
    Object.assign(request, { user: request.headers['x-user'] });
  });
}

const POST = {
  method: 'POST',
  headers: { 'content-type': 'text/plain', 'x-user': 'ada' },
  body: 'x'.repeat(2 ** 20),
};

describe('a stage', () => {
  it('is by default before anything is parsed and anybody asked', async () => {
    const { app, counts } = counting();
    await app.register(tollgate, {
      store: new Clock().store,
      logger: silent,
      policy: fixedWindow({ limit: 1, window: '60s' }),
    });
    addAuth(app, counts);
    app.post('/', () => String(++counts.handled));
    const url = await app.listen();
    expect((await ask(url, POST)).status).toBe(200);
    expect(counts).toEqual({ auth: 1, parsed: 1, handled: 1 });
    expect((await ask(url, POST)).status).toBe(429);
    expect(counts).toEqual({ auth: 1, parsed: 1, handled: 1 });
  });

  it('may be where the caller is known', async () => {
    const { app, counts } = counting();
    const account = {
      name: 'account',
      stage: 'preHandler',
      by: tenant(user),
      policy: fixedWindow({ limit: 2, window: '60s' }),
    } as const;
    await app.register(tollgate, { store: new Clock().store, logger: silent, limits: [account] });
    addAuth(app, counts);
    app.post('/', () => String(++counts.handled));
    const url = await app.listen();
    const first = await ask(url, POST);
    expect(first.headers.get('ratelimit')).toBe('"account";r=1;t=60');
    expect(first.headers.get('ratelimit-policy')).toBe('"account";q=2;w=60');
    expect(await inTurn(url, 2, POST)).toEqual([200, 429]);
    expect(counts).toEqual({ auth: 3, parsed: 3, handled: 2 });
    expect(
      (await ask(url, { ...POST, headers: { ...POST.headers, 'x-user': 'bob' } })).status,
    ).toBe(200);
  });

  it('gives back at the second what was charged at the first', async () => {
    const { app, counts } = counting();
    const { store } = new Clock();
    const address = { name: 'address', policy: fixedWindow({ limit: 10, window: '60s' }) };
    const account = {
      name: 'account',
      stage: 'preHandler',
      by: tenant(user),
      policy: fixedWindow({ limit: 1, window: '60s' }),
    } as const;
    await app.register(tollgate, { store, logger: silent, limits: [address, account] });
    addAuth(app, counts);
    app.post('/', (request) => request.rateLimit?.verdicts.map(({ name }) => name));
    const url = await app.listen();
    const reply = await ask(url, POST);
    expect(JSON.parse(reply.text)).toEqual(['address', 'account']);
    expect(reply.headers.get('ratelimit')).toBe('"address";r=9;t=60, "account";r=0;t=60');
    const refusal = await ask(url, POST);
    expect([refusal.status, JSON.parse(refusal.text)]).toMatchObject([
      429,
      { 'violated-policies': ['account'] },
    ]);
    const budget = createLimiter({ store, limits: [address] });
    expect(budget.peek({ address: '127.0.0.1' }).remaining).toBe(9);
  });

  it('waits for outcomes and frees slots at the second too', async () => {
    const { app, counts } = counting();
    const seen: (Decision | undefined)[] = [];
    const failures = {
      name: 'failures',
      stage: 'preHandler',
      countOnly: 'failures',
      by: tenant(user),
      policy: fixedWindow({ limit: 2, window: '60s' }),
    } as const;
    const slots = {
      name: 'slots',
      stage: 'preHandler',
      policy: { algorithm: 'concurrency', limit: 5 },
    } as const;
    await app.register(tollgate, {
      store: new Clock().store,
      logger: silent,
      limits: [failures, slots],
    });
    addAuth(app, counts);
    app.get('/', async (request) => {
      seen.push(request.rateLimit);
      await new Promise(setImmediate);
      return 'fine';
    });
    const url = await app.listen();
    const replies = Array.from({ length: 8 }, () => ask(url, { headers: { 'x-user': 'ada' } }));
    for (const reply of replies) expect((await reply).status).toBe(200);
    expect(seen).toHaveLength(8);
    const { limiter } = app.tollgate;
    await expect
      .poll(async () => {
        const { verdicts } = await limiter.peek({ failures: 'tenant:ada', slots: '127.0.0.1' });
        return verdicts.map(({ remaining }) => remaining);
      })
      .toEqual([2, 5]);
  });

  it('frees at once what the first holds when the client leaves before the second', async () => {
    const { app } = counting();
    let proceed: (() => void) | undefined;
    let handled = 0;
    const slots = { name: 'slots', policy: { algorithm: 'concurrency', limit: 1 } } as const;
    const late = {
      name: 'late',
      stage: 'preHandler',
      policy: fixedWindow({ limit: 5, window: '60s' }),
    } as const;
    await app.register(tollgate, {
      store: new Clock().store,
      logger: silent,
      limits: [slots, late],
    });
    app.addHook('preValidation', () => new Promise<void>((resolve) => (proceed = resolve)));
    app.get('/', () => String(++handled));
    const url = await app.listen();
    const request = start(url);
    await expect.poll(() => proceed).toBeDefined();
    const { limiter } = app.tollgate;
    const left = async (): Promise<unknown> =>
      (await limiter.peek({ slots: '127.0.0.1', late: '127.0.0.1' })).verdicts.map(
        ({ remaining }) => remaining,
      );
    expect(await left()).toEqual([0, 5]);
    request.destroy();
    await expect.poll(left).toEqual([1, 5]);
    proceed?.();
    await new Promise(setImmediate);
    expect([handled, await left()]).toEqual([0, [1, 5]]);
  });
});
