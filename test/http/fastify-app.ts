import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import {
  type Answer,
  type App,
  type Built,
  type Call,
  LOOPBACK,
  PLAIN_ROUTES,
  type Route,
} from './app.ts';
import { silent } from './log.ts';

export async function buildFastify(app: App): Promise<Built> {
  const server = fastify({ forceCloseConnections: true, trustProxy: trustOf(app) });
  const errors: unknown[] = [];
  server.addHook('onError', async (_request, _reply, error) => void errors.push(error));
  for (const step of app.before ?? []) addStep(server, step);
  for (const gate of app.gates) await server.register(tollgate, { logger: silent, ...gate });
  for (const step of app.after ?? []) addStep(server, step);
  const { onError } = app;
  if (onError !== undefined) {
    server.setErrorHandler(async (error, request, reply) =>
      send(reply, await onError(error, callOf(request, reply))),
    );
  }
  for (const route of app.routes ?? PLAIN_ROUTES) addRoute(server, route);
  await server.listen(app.listen ?? LOOPBACK);
  return {
    http: server.server,
    gate: server.tollgate,
    errors,
    stop: () => server.close(),
  };
}

/** Fastify's types leave out the number of proxies, which its code reads like this. */
function trustOf({ trust = false }: App): Exclude<App['trust'], number | undefined> {
  return typeof trust === 'number' ? (_address, hop) => hop < trust : trust;
}

function addStep(server: FastifyInstance, step: NonNullable<App['before']>[number]): void {
  server.addHook('onRequest', async (request, reply) => {
    const answer = await step(callOf(request, reply));
    if (answer !== undefined) await send(reply, answer);
  });
}

function addRoute(server: FastifyInstance, route: Route): void {
  const { method = 'GET', path, rateLimit, handler = () => undefined, takesOver = false } = route;
  server.route({
    method,
    url: path,
    ...(rateLimit !== undefined && { config: { rateLimit } }),
    handler: async (request, reply) => {
      if (takesOver) reply.hijack();
      const answer = await handler(callOf(request, reply));
      return takesOver ? reply : send(reply, answer ?? {});
    },
  });
}

function callOf(request: FastifyRequest, reply: FastifyReply): Call {
  return { request, raw: request.raw, response: reply.raw };
}

function send(reply: FastifyReply, { status = 200, headers = {}, body }: Answer): FastifyReply {
  return reply.code(status).headers(headers).send(body);
}
