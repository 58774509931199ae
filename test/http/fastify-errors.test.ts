import { fixedWindow, TollgateRefusal } from '@tollgate/core';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyError, type FastifyInstance } from 'fastify';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ask, inTurn, speak } from './clients.ts';
import { Clock } from './clock.ts';
import { silent } from './log.ts';

async function limited(limit = 1, logs?: string[]): Promise<FastifyInstance> {
  const app = fastify({
    forceCloseConnections: true,
    ...(logs && {
      logger: { level: 'warn', stream: { write: (line: string) => void logs.push(line) } },
    }),
  });
  onTestFinished(() => app.close());
  await app.register(tollgate, {
    store: new Clock().store,
    logger: silent,
    policy: fixedWindow({ limit, window: '60s' }),
  });
  return app;
}

describe('a handler of errors', () => {
  it('is handed a refusal once, and may answer with a promise', async () => {
    const logs: string[] = [];
    const app = await limited(1, logs);
    const seen: unknown[] = [];
    app.setErrorHandler(async (error: FastifyError, _request, reply) => {
      seen.push(error);
      await Promise.resolve();
      return reply.code(error.statusCode ?? 500).send({ error: 'x' });
    });
    app.get('/', () => 'fine');
    const url = await app.listen();
    expect(await inTurn(url, 1)).toEqual([200]);
    const refusal = await ask(url);
    expect([refusal.status, refusal.text]).toEqual([429, '{"error":"x"}']);
    expect(refusal.headers.get('retry-after')).toBe('60');
    expect(seen).toHaveLength(1);
    expect(seen[0]).toBeInstanceOf(TollgateRefusal);
    expect(logs).toEqual([]);
  });

  it('may return its answer, or leave the status to Fastify', async () => {
    const app = await limited();
    app.setErrorHandler(async (error: FastifyError) => ({ code: error.code }));
    app.get('/', () => 'fine');
    const url = await app.listen();
    expect(await inTurn(url, 1)).toEqual([200]);
    const refusal = await ask(url);
    expect(refusal.text).toBe('{"code":"TOLLGATE_REFUSED"}');
    expect(refusal.status).toBe(429);
  });

  it('may pass the refusal on', async () => {
    const app = await limited();
    app.setErrorHandler((error) => {
      throw error;
    });
    app.get('/', () => 'fine');
    const url = await app.listen();
    expect(await inTurn(url, 1)).toEqual([200]);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
  });

  it('may be set before the plugin, or only in a child context', async () => {
    const app = fastify({ forceCloseConnections: true });
    onTestFinished(() => app.close());
    app.setErrorHandler((error: FastifyError, _request, reply) =>
      reply.code(error.statusCode ?? 500).send('outer'),
    );
    const limit = fixedWindow({ limit: 1, window: '60s' });
    await app.register(tollgate, { store: new Clock().store, logger: silent, policy: limit });
    app.get('/', () => 'fine');
    await app.register(async (child) => {
      child.setErrorHandler((error: FastifyError, _request, reply) =>
        reply.code(error.statusCode ?? 500).send('inner'),
      );
      child.get('/inner', () => 'fine');
    });
    const url = await app.listen();
    await ask(url);
    expect((await ask(url)).text).toBe('outer');
    expect((await ask(`${url}/inner`)).text).toBe('inner');
    expect((await ask(`${url}/nope`)).text).toBe('outer');
  });

  it('of one context leaves the problems of others alone', async () => {
    const app = await limited();
    await app.register(async (child) => {
      child.setErrorHandler((_error, _request, reply) => reply.code(418).send('inner'));
      child.get('/inner', () => 'fine');
    });
    app.get('/', () => 'fine');
    const url = await app.listen();
    await ask(url);
    expect((await ask(url)).headers.get('content-type')).toBe('application/problem+json');
    expect((await ask(`${url}/inner`)).status).toBe(418);
  });

  it('of a route is handed its refusals', async () => {
    const app = await limited();
    app.get(
      '/',
      {
        errorHandler: (error, _request, reply) => reply.code(error.statusCode ?? 500).send('route'),
      },
      () => 'fine',
    );
    const url = await app.listen();
    await ask(url);
    const refusal = await ask(url);
    expect([refusal.status, refusal.text]).toEqual([429, 'route']);
  });

  it('sees faults with their status', async () => {
    const app = fastify({ forceCloseConnections: true });
    onTestFinished(() => app.close());
    const seen: unknown[] = [];
    app.setErrorHandler((error: FastifyError, _request, reply) => {
      seen.push(error);
      return reply.code(error.statusCode ?? 500).send('mine');
    });
    const broken = {
      name: 'broken',
      policy: fixedWindow({ limit: 1, window: '60s' }),
      by: () => Promise.reject(new Error('no session')),
    };
    await app.register(tollgate, { store: new Clock().store, logger: silent, limits: [broken] });
    app.get('/', () => 'fine');
    expect((await ask(await app.listen())).status).toBe(500);
    expect(seen).toMatchObject([{ code: 'TOLLGATE_FUNCTION', cause: { message: 'no session' } }]);
  });
});

it('runs the hooks of the application on a refusal, once', async () => {
  const app = await limited();
  const ran: string[] = [];
  app.addHook('onSend', async (_request, reply) => void ran.push(`send ${reply.statusCode}`));
  app.addHook(
    'onResponse',
    async (_request, reply) => void ran.push(`response ${reply.statusCode}`),
  );
  app.addHook('onError', async () => void ran.push('error'));
  app.get('/', () => 'fine');
  const url = await app.listen();
  expect(await inTurn(url, 2)).toEqual([200, 429]);
  await expect.poll(() => ran).toEqual(['send 200', 'response 200', 'send 429', 'response 429']);
});

it('does not answer what a hook has begun or taken over', async () => {
  const app = fastify({ forceCloseConnections: true });
  onTestFinished(() => app.close());
  let handled = 0;
  app.addHook('onRequest', async (request, reply) => {
    if (request.url === '/begun') reply.raw.write('begun ');
    if (request.url !== '/taken') return;
    reply.hijack();
    reply.raw.end('taken');
  });
  await app.register(tollgate, {
    store: new Clock().store,
    logger: silent,
    policy: fixedWindow({ limit: 0, window: '60s' }),
  });
  app.get('/begun', () => String(++handled));
  app.get('/taken', () => String(++handled));
  await app.listen();
  const { port } = app.server.address() as { port: number };
  for (const path of ['begun', 'taken']) {
    const answer = await speak(
      port,
      `GET /${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    expect(answer.split('HTTP/1.1').length).toBeLessThanOrEqual(2);
    expect(answer).not.toContain('429');
  }
  expect(handled).toBe(0);
});
