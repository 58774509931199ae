import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { type GateOptions, type HttpRequest, tokenBucket } from '@tollgate/core';
import { rateLimit as expressGate } from '@tollgate/express';
import { tollgate } from '@tollgate/fastify';
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { fastify, type FastifyInstance, type FastifyPluginAsync } from 'fastify';
import type { TestContext } from 'vitest';
import { silent } from '../http/log.ts';

/** A request that a server answered. Times are milliseconds of the monotonic clock. */
export interface Hit {
  readonly atMs: number;
  readonly status: number;
  /** What it was told to wait, in seconds; NaN where it was told nothing. */
  readonly retryAfter: number;
}

export interface LimitedServer {
  readonly url: string;
  readonly hits: readonly Hit[];
}

/** Calls back when a test is over. Tests that run at once need each their own. */
export type WhenOver = TestContext['onTestFinished'];

/** A server with a limit for each client address. `start` listens until the test is over. */
export interface Limited {
  readonly name: string;
  readonly start: (whenOver: WhenOver) => Promise<LimitedServer>;
}

const require = createRequire(import.meta.url);
/** Without its types: they say what `config.rateLimit` is in every Fastify, as ours do. */
const fastifyRateLimit = require('@fastify/rate-limit') as FastifyPluginAsync<{
  readonly max: number;
  readonly timeWindow: number;
  readonly enableDraftSpec: boolean;
}>;

type Headers = NonNullable<GateOptions<HttpRequest>['headers']>;

/** Two at once, then one every second and a half. */
const POLICY = tokenBucket({ capacity: 2, rate: 2, per: '3s' });

export function ownFastify(headers?: Headers): Limited {
  return {
    name: `@tollgate/fastify, ${naming(headers)}`,
    start: (whenOver) =>
      startFastify(whenOver, async (app) => {
        const options = {
          policy: POLICY,
          logger: silent,
          ...(headers !== undefined && { headers }),
        };
        await app.register(tollgate, options);
      }),
  };
}

export function ownExpress(headers?: Headers): Limited {
  return {
    name: `@tollgate/express, ${naming(headers)}`,
    start: (whenOver) => {
      const options = { policy: POLICY, logger: silent, ...(headers !== undefined && { headers }) };
      const gate = expressGate(options);
      whenOver(() => gate.close());
      return startExpress(whenOver, gate);
    },
  };
}

function expressRateLimit(standardHeaders: 'draft-6' | 'draft-7' | 'draft-8' | false): Limited {
  const legacyHeaders = standardHeaders === false;
  return {
    name: `express-rate-limit, ${standardHeaders || 'legacy'} headers`,
    start: (whenOver) =>
      startExpress(
        whenOver,
        rateLimit({ windowMs: 3_000, limit: 2, standardHeaders, legacyHeaders }),
      ),
  };
}

function rateLimitOfFastify(enableDraftSpec: boolean): Limited {
  return {
    name: `@fastify/rate-limit, ${enableDraftSpec ? 'draft' : 'usual'} headers`,
    start: (whenOver) =>
      startFastify(whenOver, async (app) => {
        await app.register(fastifyRateLimit, { max: 2, timeWindow: 3_000, enableDraftSpec });
      }),
  };
}

/** Our own servers and those of others, with every kind of headers. */
export const SERVERS: readonly Limited[] = [
  ownFastify(),
  ownExpress(),
  ownFastify(['draft-7']),
  ownExpress(['x-ratelimit']),
  ownFastify(['draft-11']),
  expressRateLimit('draft-6'),
  expressRateLimit('draft-7'),
  expressRateLimit('draft-8'),
  expressRateLimit(false),
  rateLimitOfFastify(false),
  rateLimitOfFastify(true),
];

function naming(headers: Headers | undefined): string {
  if (headers === undefined) return 'usual headers';
  return headers === false ? 'no headers' : `${headers.join(' and ')} headers`;
}

async function startFastify(
  whenOver: WhenOver,
  limit: (app: FastifyInstance) => Promise<void>,
): Promise<LimitedServer> {
  const app = fastify({ forceCloseConnections: true });
  await limit(app);
  app.all('/', async () => 'served');
  await app.listen({ host: '127.0.0.1', port: 0 });
  whenOver(() => app.close());
  return watched(app.server);
}

async function startExpress(
  whenOver: WhenOver,
  gate: express.RequestHandler,
): Promise<LimitedServer> {
  const app = express();
  app.use(gate);
  app.all('/', (_request, response) => void response.send('served'));
  return listening(whenOver, app);
}

/** Serves on a free port until the test is over. */
async function listening(whenOver: WhenOver, app: RequestListener): Promise<LimitedServer> {
  const server = createServer(app);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  whenOver(() => {
    server.close();
    server.closeAllConnections();
  });
  return watched(server);
}

function watched(server: Server): LimitedServer {
  const hits: Hit[] = [];
  server.prependListener('request', (_request, response) => {
    const atMs = performance.now();
    response.once('finish', () => {
      // Fastify hands its headers over at once, so that no getHeader() knows them.
      const head = String(Reflect.get(response, '_header'));
      const [, seconds] = /^retry-after: (.*)$/im.exec(head) ?? [];
      hits.push({ atMs, status: response.statusCode, retryAfter: Number(seconds ?? NaN) });
    });
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, hits };
}
