import { concurrency, fixedWindow, tollgate } from '@tollgate/fastify';
import { fastify } from 'fastify';
import { expect, it } from 'vitest';

it('requests of inject() count by their outcomes, as those of a server do', async () => {
  const app = fastify();
  await app.register(tollgate, {
    logger: { warn: () => undefined, error: () => undefined },
    limits: [
      { name: 'login', policy: fixedWindow({ limit: 2, window: '400d' }), countOnly: 'failures' },
      { name: 'slots', policy: concurrency({ limit: 1 }) },
    ],
  });
  app.get('/:status', (request, reply) => {
    const { status } = request.params as { status: string };
    return reply.code(Number(status)).send();
  });
  const statuses: number[] = [];
  for (const status of [200, 401, 204, 302, 500, 200]) {
    statuses.push((await app.inject(`/${status}`)).statusCode);
  }
  expect(statuses).toEqual([200, 401, 204, 302, 500, 429]);
  await app.close();
});
