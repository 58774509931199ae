import { type Decision, fixedWindow, type Gate, type Limiter } from '@tollgate/core';
import defaultExport, {
  type FastifyOptions,
  type RouteRateLimit,
  tollgate,
} from '@tollgate/fastify';
import {
  fastify,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyTypeProvider,
  type RawReplyDefaultExpression,
  type RawRequestDefaultExpression,
  type RawServerDefault,
} from 'fastify';
import { expect, expectTypeOf, it, onTestFinished } from 'vitest';
import { ask } from './clients.ts';
import { Clock } from './clock.ts';
import { silent } from './log.ts';

const policy = fixedWindow({ limit: 10, window: '60s' });

function make(): FastifyInstance {
  const app = fastify({ forceCloseConnections: true });
  onTestFinished(() => app.close());
  return app;
}

it('types what a route changes', async () => {
  const app = make();
  await app.register(tollgate, { policy, store: new Clock().store });
  app.get('/a', { config: { rateLimit: true } }, () => 'a');
  app.get('/b', { config: { rateLimit: false } }, () => 'b');
  app.get('/c', { config: { rateLimit: { cost: 5 } } }, () => 'c');
  app.get('/d', { config: { rateLimit: { cost: { default: 2 } } } }, () => 'd');
  app.get(
    '/e',
    { config: { rateLimit: { cost: (request) => Number(request.headers['x-cost'] ?? 1) } } },
    () => 'e',
  );
  const limits = [{ name: 'more', policy, by: (request: FastifyRequest) => request.hostname }];
  app.get('/f', { config: { rateLimit: { limits, inherit: false } } }, () => 'f');
  expectTypeOf<{ cost: 5 }>().toExtend<RouteRateLimit>();
  // @ts-expect-error -- a text is no cost
  expect(() => app.get('/g', { config: { rateLimit: { cost: '5' } } }, () => 'g')).toThrow('cost');
  // @ts-expect-error -- a word that no route knows. Inline Fastify would take it for the application's own.
  const wrong: RouteRateLimit = { cots: 5 };
  expect(() => app.get('/h', { config: { rateLimit: wrong } }, () => 'h')).toThrow('cots');
  // @ts-expect-error -- neither true, nor false, nor what changes
  const off: RouteRateLimit = 'off';
  expect(() => app.get('/i', { config: { rateLimit: off } }, () => 'i')).toThrow('rateLimit');
  await app.ready();
});

it('types the options', async () => {
  expectTypeOf<FastifyOptions['limits']>().not.toBeAny();
  await expect(
    make().register(tollgate, {
      policy,
      // @ts-expect-error -- another library's word
      max: 5,
    }),
  ).rejects.toThrow('max');
  await expect(
    make().register(tollgate, {
      limits: [
        {
          name: 'plain',
          policy,
          // @ts-expect-error -- a list is an array
          allowList: '127.0.0.1',
        },
      ],
    }),
  ).rejects.toThrow('allowList');
  await make().register(tollgate, {
    limits: [
      {
        name: 'user',
        by: (request) => {
          expectTypeOf(request).toEqualTypeOf<FastifyRequest>();
          return request.ip;
        },
        policy: () => policy,
        countOnly: (status) => status === 422,
        stage: 'preHandler',
      },
    ],
    problem: (_request, decision) => ({ wait: decision.retryAfterMs }),
  });
});

it('types the request and the application', async () => {
  const app = make();
  await app.register(defaultExport, { policy, store: new Clock().store, logger: silent });
  expectTypeOf(app.tollgate).toEqualTypeOf<Gate<FastifyRequest>>();
  expectTypeOf(app.tollgate.limiter).toEqualTypeOf<Limiter>();
  app.get('/', (request) => {
    expectTypeOf(request.rateLimit).toEqualTypeOf<Decision | undefined>();
    return { left: request.rateLimit?.remaining };
  });
  app.server.on('upgrade', (raw) => void app.tollgate.consume(raw));
  expect((await ask(await app.listen())).text).toBe('{"left":9}');
});

/** Reads a schema that says its own type. */
interface Plain extends FastifyTypeProvider {
  readonly validator: this['schema'] extends { readonly is: infer T } ? T : unknown;
}

it('goes together with a type provider', async () => {
  const app: FastifyInstance<
    RawServerDefault,
    RawRequestDefaultExpression,
    RawReplyDefaultExpression,
    FastifyBaseLogger,
    Plain
  > = make().withTypeProvider<Plain>();
  app.setValidatorCompiler(() => () => true);
  await app.register(tollgate, { policy, store: new Clock().store });
  app.get(
    '/:id',
    {
      schema: { params: { is: {} as { id: string } } },
      config: { rateLimit: { cost: 2 } },
    },
    (request) => {
      expectTypeOf(request.params).toEqualTypeOf<{ id: string }>();
      expectTypeOf(request.rateLimit).toEqualTypeOf<Decision | undefined>();
      return `${request.params.id} ${request.rateLimit?.remaining}`;
    },
  );
  expect((await ask(`${await app.listen()}/7`)).text).toBe('7 8');
});
