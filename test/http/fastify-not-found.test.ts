import { fixedWindow } from '@tollgate/core';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance } from 'fastify';
import { expect, it, onTestFinished, test } from 'vitest';
import { ask, inTurn, speak } from './clients.ts';
import { Clock } from './clock.ts';
import { silent } from './log.ts';

function make(): FastifyInstance {
  const app = fastify({ forceCloseConnections: true });
  onTestFinished(() => app.close());
  return app;
}

function gate(limit = 2) {
  return {
    store: new Clock().store,
    policy: fixedWindow({ limit, window: '60s' }),
    logger: silent,
  };
}

function sayNothingHere(app: FastifyInstance): void {
  app.setNotFoundHandler((_request, reply) => reply.code(404).send('nothing here'));
}

test.each<[string, (app: FastifyInstance) => Promise<unknown>]>([
  ['without a handler', async (app) => app.register(tollgate, gate())],
  [
    'with a handler set before',
    async (app) => {
      sayNothingHere(app);
      await app.register(tollgate, gate());
    },
  ],
  [
    'with a handler set after',
    async (app) => {
      await app.register(tollgate, gate());
      sayNothingHere(app);
    },
  ],
  [
    'with a handler that has hooks of its own',
    async (app) => {
      await app.register(tollgate, gate());
      app.setNotFoundHandler({ preHandler: async () => undefined }, (_request, reply) =>
        reply.code(404).send('nothing here'),
      );
    },
  ],
])('limits what is not found %s', async (_, build) => {
  const app = make();
  await build(app);
  app.get('/known', () => 'known');
  const url = await app.listen();
  expect(await inTurn(`${url}/nope`, 1)).toEqual([404]);
  const last = await ask(`${url}/nope?again`, { method: 'POST' });
  expect([last.status, last.headers.get('ratelimit')]).toEqual([404, '"default";r=0;t=60']);
  const refusal = await ask(`${url}/other`);
  expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
  expect(refusal.headers.get('content-type')).toBe('application/problem+json');
});

test.each(['the parent', 'the child'])(
  'limits what is not found in a child context, registered in %s',
  async (where) => {
    const app = make();
    if (where === 'the parent') await app.register(tollgate, gate());
    await app.register(
      async (child) => {
        if (where === 'the child') await child.register(tollgate, gate());
        sayNothingHere(child);
        child.get('/known', () => 'known');
      },
      { prefix: '/v1' },
    );
    const url = await app.listen();
    expect(await inTurn(`${url}/v1/nope`, 3)).toEqual([404, 404, 429]);
    expect(await inTurn(`${url}/nope`, 1)).toEqual([where === 'the parent' ? 429 : 404]);
  },
);

it('charges a handler that gives up once', async () => {
  const app = make();
  await app.register(tollgate, gate(10));
  sayNothingHere(app);
  app.get('/gone', (_request, reply) => {
    reply.callNotFound();
  });
  const url = await app.listen();
  for (const left of ['9', '8']) {
    const reply = await ask(`${url}/gone`);
    expect([reply.status, reply.headers.get('ratelimit-remaining')]).toEqual([404, left]);
  }
});

it('limits a method that a path does not have', async () => {
  const app = make();
  await app.register(tollgate, gate());
  app.get('/known', () => 'known');
  const url = await app.listen();
  expect(await inTurn(`${url}/known`, 3, { method: 'OPTIONS' })).toEqual([404, 404, 429]);
});

it('does not see what Fastify refuses before any hook', async () => {
  const app = make();
  await app.register(tollgate, gate());
  app.get('/:id', () => 'known');
  await app.listen();
  const { port } = app.server.address() as { port: number };
  for (let i = 0; i < 5; i++) {
    const answer = await speak(port, 'GET /a%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  }
  expect((await app.tollgate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(2);
});
