import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Logger, onEvent, TollgateConfigError } from '@tollgate/core';
import { write } from './answer.ts';
import { auditor } from './audit.ts';
import { type FastifyMount, mountIn } from './fastify.ts';
import { checkOptions, type DashboardOptions } from './options.ts';
import { Desk } from './desk.ts';
import { Traffic } from './traffic.ts';
import { Watched, type WatchedGate } from './watched.ts';

/** A page for operators: a handler of `node:http`, which Express mounts as it is, and a plugin for Fastify. */
export interface Dashboard {
  (request: IncomingMessage, response: ServerResponse): void;
  /** For Fastify: `await app.register(dashboard(app.tollgate, { … }).fastify, { prefix: '/tollgate' })`. */
  readonly fastify: FastifyMount;
  /** Ends the counting; the page goes on with what it has. In Fastify that happens when the app closes. */
  close(): void;
}

const CONSOLE: Logger = {
  warn: (details, message) => console.warn(`tollgate: ${message}`, details),
  error: (details, message) => console.error(`tollgate: ${message}`, details),
};

/**
 * The operator's page of a gate: what its limits admit and refuse, and for each key a look, a reset and bans.
 * It counts from this call on, in this process.
 *
 * @param gate `app.tollgate` in Fastify, what `rateLimit()` returned in Express, or `{ limiter }`.
 * @throws TollgateConfigError without `authorize`, and for a wrong option.
 */
export function dashboard<R = IncomingMessage>(
  gate: WatchedGate,
  options: DashboardOptions<R>,
): Dashboard {
  const limiter = (gate as Partial<WatchedGate> | undefined)?.limiter;
  if (typeof limiter?.peek !== 'function') {
    throw new TollgateConfigError(
      '',
      'expected a gate: app.tollgate in Fastify, what rateLimit() returned in Express, or { limiter }',
    );
  }
  checkOptions(options);
  const { logger = CONSOLE } = options;
  const traffic = new Traffic();
  const close = onEvent('tollgate:decision', (event) => {
    if (event.limiter === limiter) traffic.count(event.decision);
  });
  const desk = new Desk(new Watched(limiter, traffic), {
    ...options,
    logger,
    audit: auditor(options.onAudit, logger),
  });
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    // What Express mounted it under is taken off already; without Express it is at the root.
    const [path = '/'] = (request.url ?? '/').split('?');
    void desk
      .answer(request as R, request, path)
      .then((answer) => write(response, answer, request.method === 'HEAD'))
      .catch((error: unknown) => {
        logger.error({ err: error }, 'the dashboard could not answer');
        response.destroy();
      });
  };
  return Object.assign(handle, { fastify: mountIn(desk, close), close });
}
