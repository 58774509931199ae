import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import {
  all,
  apiKey,
  bearerToken,
  clientIp,
  custom,
  everyone,
  firstOf,
  type HttpRequest,
  type KeyFunction,
  route,
  secret,
  tenant,
} from '@tollgate/core';
import express, { type Express, type Request } from 'express';
import { expect, expectTypeOf, it } from 'vitest';

/** Asks a listening app, and closes it. */
async function ask(app: Express, requests: readonly [string, string, string?][]): Promise<void> {
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  for (const [method, path, forwarded] of requests) {
    const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
    await fetch(`http://127.0.0.1:${port}${path}`, { method, headers });
  }
  server.close();
  server.closeAllConnections();
}

it('has requests that key functions understand', () => {
  expectTypeOf<Request>().toExtend<HttpRequest>();
  expectTypeOf<Request<{ id: string }, string, { name: string }>>().toExtend<HttpRequest>();
});

it('gives its request to the functions inside a key', () => {
  const keys: KeyFunction<Request>[] = [
    clientIp(),
    apiKey(),
    bearerToken({ optional: true }),
    everyone(),
    route(),
    tenant((request) => request.get('x-tenant')),
    custom(async (request) => request.hostname),
    (request) => request.hostname,
    secret(custom((request) => request.hostname)),
    all(
      clientIp(),
      route(),
      everyone(),
      custom((request) => request.hostname),
    ),
    firstOf(
      apiKey(),
      all(
        clientIp(),
        tenant((request) => request.get('x-tenant')),
      ),
    ),
  ];
  expect(keys).toHaveLength(11);
  const host = custom((request: Request) => request.hostname);
  expectTypeOf(all(clientIp(), host, route())).toEqualTypeOf<KeyFunction<Request>>();
  expectTypeOf(firstOf(host, clientIp())).toEqualTypeOf<KeyFunction<Request>>();
});

it("shows its route's pattern inside the route, whatever the caller writes", async () => {
  const app = express();
  const api = express.Router();
  const seen: string[] = [];
  const look: express.RequestHandler = (request, _response, next) => {
    seen.push(route()(request));
    next();
  };
  const end: express.RequestHandler = (_request, response) => void response.end();
  api.get('/users/:id', look, end);
  api.get(/^\/x/, look, end);
  app.get('/outside', look, end);
  app.use('/api', api);
  app.use(look);
  await ask(app, [
    ['GET', '/outside'],
    ['GET', '/api/users/7?a=1'],
    ['HEAD', '/API/users/8'],
    ['GET', '/api/xyz'],
    ['GET', '/api/nowhere'],
  ]);
  expect(seen).toEqual(
    [
      'GET /outside',
      'GET /api/users/:id',
      'GET /api/users/:id',
      'GET /api/^\\/x/',
      '(no route)',
      '(no route)',
    ]
      .filter((_, index) => index !== 4)
      .concat([]),
  );
});

it('hands over forwarded addresses as they were written', async () => {
  const app = express();
  app.set('trust proxy', 'loopback');
  const seen: string[] = [];
  app.use((request, response) => {
    seen.push(clientIp()(request));
    response.end();
  });
  const junk = ['{${7*7}}', 'unknown', ', ,', 'a'.repeat(10_000), '1.2.3.4.5'];
  const forwarded = ['203.0.113.7:40001', '[2001:db8::7]:40001', ...junk];
  await ask(
    app,
    forwarded.map((entry) => ['GET', '/', entry] as const).map(([a, b, c]) => [a, b, c]),
  );
  expect(seen).toEqual(['203.0.113.7', '2001:db8::/56', ...junk.map(() => '127.0.0.1')]);
});
