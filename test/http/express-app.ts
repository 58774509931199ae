import { once } from 'node:events';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream';
import { type ExpressOptions, rateLimit } from '@tollgate/express';
import type express from 'express';
import type { Express, NextFunction, Request, Response } from 'express';
import {
  type Answer,
  type App,
  type Built,
  isOutside,
  LOOPBACK,
  PLAIN_ROUTES,
  type Route,
} from './app.ts';
import { silent } from './log.ts';

export async function buildExpress(make: typeof express, app: App): Promise<Built> {
  const server = make();
  server.disable('x-powered-by');
  if (app.trust !== undefined) server.set('trust proxy', app.trust);
  const errors: unknown[] = [];
  const gates = app.gates.map((options) => rateLimit(expressOptions(options, app)));
  const [gate] = gates;
  if (gate === undefined) throw new TypeError('an app needs a gate');
  const routes = app.routes ?? PLAIN_ROUTES;
  for (const step of app.before ?? []) addStep(server, step);
  for (const route of routes.filter(isOutside)) addRoute(server, route, gate);
  for (const each of gates) server.use(each);
  for (const step of app.after ?? []) addStep(server, step);
  for (const route of routes) if (!isOutside(route)) addRoute(server, route, gate);
  server.use(errorHandler(app, errors));
  const http = createServer(server);
  http.listen(app.listen ?? LOOPBACK);
  await once(http, 'listening');
  return {
    http,
    gate,
    errors,
    stop: async () => {
      const closed = new Promise((resolve) => http.close(resolve));
      http.closeAllConnections();
      await closed;
      for (const each of gates) await each.close();
    },
  };
}

/** An application with an error handler of its own wants to see refusals there, as in Fastify. */
function expressOptions(options: App['gates'][number], { onError }: App): ExpressOptions {
  return { logger: silent, ...(onError !== undefined && { refusals: 'next' }), ...options };
}

function addStep(server: Express, step: NonNullable<App['before']>[number]): void {
  server.use((request, response, next) => {
    Promise.resolve(step({ request, raw: request, response })).then((answer) => {
      if (answer === undefined) next();
      else send(response, answer);
    }, next);
  });
}

function addRoute(server: Express, route: Route, gate: ReturnType<typeof rateLimit>): void {
  const { method = 'GET', path, handler = () => undefined, takesOver = false } = route;
  const changes = typeof route.rateLimit === 'object' ? [gate.with(route.rateLimit)] : [];
  const verb = method.toLowerCase() as 'get' | 'head' | 'post' | 'options';
  server[verb](path, ...changes, (request: Request, response: Response, next: NextFunction) => {
    const answered = (answer: Answer | undefined): void => {
      if (!takesOver) send(response, answer ?? {});
    };
    // Express 4 does not look at the promise of a handler.
    Promise.resolve()
      .then(() => handler({ request, raw: request, response }))
      .then(answered, next);
  });
}

function errorHandler({ onError }: App, errors: unknown[]): express.ErrorRequestHandler {
  return (error, request, response, next) => {
    errors.push(error);
    if (onError === undefined) return next(error);
    Promise.resolve(onError(error, { request, raw: request, response })).then(
      (answer) => send(response, answer),
      next,
    );
  };
}

function send(response: Response, { status = 200, headers = {}, body }: Answer): void {
  response.status(status).set(headers);
  if (typeof body === 'object') pipeline(body, response, () => undefined);
  else response.send(body);
}
