import type { Http2SecureServer } from 'node:http2';
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
import fastify, { type FastifyRequest, type RouteGenericInterface } from 'fastify';
import { expect, expectTypeOf, it } from 'vitest';

it('has requests that key functions understand', () => {
  expectTypeOf<FastifyRequest>().toExtend<HttpRequest>();
  expectTypeOf<FastifyRequest<RouteGenericInterface, Http2SecureServer>>().toExtend<HttpRequest>();
  expectTypeOf<FastifyRequest<{ Headers: { 'x-count': number } }>>().toExtend<HttpRequest>();
});

it('gives its request to the functions inside a key', () => {
  const keys: KeyFunction<FastifyRequest>[] = [
    clientIp(),
    apiKey(),
    bearerToken({ optional: true }),
    everyone(),
    route(),
    tenant((request) => request.id),
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
        tenant((request) => request.id),
      ),
    ),
  ];
  expect(keys).toHaveLength(11);
  const host = custom((request: FastifyRequest) => request.hostname);
  expectTypeOf(all(clientIp(), host, route())).toEqualTypeOf<KeyFunction<FastifyRequest>>();
  expectTypeOf(firstOf(host, clientIp())).toEqualTypeOf<KeyFunction<FastifyRequest>>();
});

it("shows its route's pattern, and none where none matched", async () => {
  const app = fastify();
  const seen: unknown[] = [];
  app.addHook('onRequest', async (request) => {
    seen.push(await all(clientIp(), route())(request));
  });
  await app.register(async (api) => api.get('/users/:id', () => 'ok'), { prefix: '/api' });
  await app.inject({ method: 'GET', url: '/api/users/7?a=1' });
  await app.inject({ method: 'HEAD', url: '/api/users/8' });
  await app.inject({ method: 'GET', url: '/nowhere' });
  await app.inject({ method: 'POST', url: '/api/users/7', remoteAddress: '2001:db8::1' });
  await app.close();
  expect(seen).toEqual([
    '127.0.0.1|GET /api/users/:id',
    '127.0.0.1|GET /api/users/:id',
    '127.0.0.1|(no route)',
    '2001:db8::/56|(no route)',
  ]);
});

it('hands over forwarded addresses as they were written', async () => {
  const app = fastify({ trustProxy: '127.0.0.1' });
  app.get('/', (request) => ({ key: clientIp()(request) }));
  const keyFor = async (forwarded: string): Promise<unknown> => {
    const response = await app.inject({ url: '/', headers: { 'x-forwarded-for': forwarded } });
    return response.json();
  };
  expect(await keyFor('203.0.113.7:40001')).toEqual({ key: '203.0.113.7' });
  expect(await keyFor('[2001:db8::7]:40001')).toEqual({ key: '2001:db8::/56' });
  for (const junk of ['{${7*7}}', 'unknown', ', ,', 'a'.repeat(10_000), '1.2.3.4.5']) {
    expect(await keyFor(junk)).toEqual({ key: '127.0.0.1' });
  }
  await app.close();
});
