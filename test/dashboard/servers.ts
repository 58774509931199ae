import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLimiter, type GateOptions, type Limiter } from '@tollgate/core';
import { dashboard, type DashboardOptions } from '@tollgate/dashboard';
import { type ExpressOptions, rateLimit } from '@tollgate/express';
import { type FastifyOptions, tollgate } from '@tollgate/fastify';
import express5 from 'express';
import express4 from 'express4';
import { fastify } from 'fastify';
import { onTestFinished } from 'vitest';
import { silent } from '../http/log.ts';

/** What every framework shows `authorize`: the request with what the app's own middleware put on it. */
export interface Visitor {
  readonly headers: IncomingMessage['headers'];
  /** Who the app says it is, from the header `x-user`. */
  readonly user?: string | undefined;
}

export interface Setup {
  readonly gate: GateOptions<Visitor>;
  /** Default says yes, with the name in `x-user`. */
  readonly options?: Partial<DashboardOptions<Visitor>>;
  /** Default `/tollgate`. */
  readonly prefix?: string;
  /** A body parser of the app's in front of everything; default none. */
  readonly parser?: 'json' | 'raw' | 'text';
}

export interface Mounted {
  /** Of the server, without a slash at its end. */
  readonly url: string;
  /** Of the page, without a slash at its end. */
  readonly page: string;
  readonly limiter: Limiter;
}

export interface Mounting {
  readonly name: string;
  /** Serves a page, and `/limited` behind the gate. Listens until the test is over. */
  readonly mount: (setup: Setup) => Promise<Mounted>;
}

function optionsOf({ options }: Setup): DashboardOptions<Visitor> {
  return { authorize: ({ user }) => user ?? true, logger: silent, ...options };
}

async function listen(server: Server, stop: () => unknown): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await stop();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function inExpress(make: typeof express5): Mounting['mount'] {
  return async (setup) => {
    const { prefix = '/tollgate', parser } = setup;
    const app = make();
    const gate = rateLimit({ logger: silent, ...setup.gate } as ExpressOptions);
    const page = dashboard(gate, optionsOf(setup));
    app.use((request, _response, next) => {
      Object.assign(request, { user: request.get('x-user') });
      next();
    });
    if (parser !== undefined) app.use(make[parser]({ type: () => true }));
    app.use(prefix, page);
    app.use(gate);
    app.get('/limited', (_request, response) => {
      response.send('served');
    });
    const url = await listen(createServer(app), async () => {
      page.close();
      await gate.close();
    });
    return { url, page: `${url}${prefix}`, limiter: gate.limiter };
  };
}

async function inFastify(setup: Setup): Promise<Mounted> {
  const { prefix = '/tollgate', parser } = setup;
  const app = fastify({ forceCloseConnections: true });
  app.decorateRequest('user', undefined);
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { user: request.headers['x-user'] });
  });
  if (parser !== undefined) {
    app.addContentTypeParser('*', { parseAs: 'string' }, async () => 'parsed');
  }
  await app.register(tollgate, { logger: silent, ...setup.gate } as FastifyOptions);
  app.get('/limited', () => 'served');
  await app.register(dashboard(app.tollgate, optionsOf(setup)).fastify, { prefix });
  onTestFinished(() => app.close());
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return { url, page: `${url}${prefix}`, limiter: app.tollgate.limiter };
}

/** On a port of its own, at the root, beside a limiter that no gate has. */
async function inNode(setup: Setup): Promise<Mounted> {
  const { store, limits = [], logKeys } = setup.gate;
  const limiter = createLimiter({
    ...(store && { store }),
    ...(logKeys !== undefined && { logKeys }),
    logger: silent,
    limits: limits.map(({ name, policy, mode, ban }) => ({
      name,
      ...(typeof policy === 'function' ? {} : { policy }),
      ...(mode && { mode }),
      ...(ban && { ban }),
    })),
  });
  const page = dashboard({ limiter }, optionsOf(setup));
  const url = await listen(
    createServer((request, response) => {
      Object.assign(request, { user: request.headers['x-user'] });
      page(request, response);
    }),
    async () => {
      page.close();
      await limiter.close();
    },
  );
  return { url, page: url, limiter };
}

/** The frameworks that both a gate and the page are mounted in. */
export const FRAMEWORKS: readonly Mounting[] = [
  { name: 'Fastify 5', mount: inFastify },
  { name: 'Express 5', mount: inExpress(express5) },
  // What is used of Express is the same in 4; their types do not know of one another.
  { name: 'Express 4', mount: inExpress(express4 as unknown as typeof express5) },
];

export const MOUNTINGS: readonly Mounting[] = [...FRAMEWORKS, { name: 'node:http', mount: inNode }];
