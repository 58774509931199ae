import {
  type Adapter,
  type Decision,
  type Exchange,
  Gate,
  GATE_OPTIONS,
  type GateOptions,
  type Lane,
  type MaybePromise,
  type Outcome,
  type Refusal,
  type RouteOptions,
  type Stage,
  TollgateRefusal,
} from '@tollgate/core';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';

export * from '@tollgate/core';
export {
  type FromFastifyRateLimit,
  fromFastifyRateLimit,
} from './moving/from-fastify-rate-limit.ts';
export type { ErrorResponseContext, FastifyRateLimitOptions } from './moving/options.ts';

export type FastifyOptions = GateOptions<FastifyRequest>;

/** `config.rateLimit` of a route: what it changes, false for no limit, true for the gate's limits as they are. */
export type RouteRateLimit = RouteOptions<FastifyRequest> | boolean;

declare module 'fastify' {
  interface FastifyInstance {
    tollgate: Gate<FastifyRequest>;
  }
  interface FastifyRequest {
    /** What the gates say that the request passed so far. */
    rateLimit: Decision | undefined;
  }
  interface FastifyContextConfig {
    rateLimit?: RouteRateLimit;
  }
}

const ADAPTER: Adapter<FastifyRequest> = {
  options: GATE_OPTIONS,
  staged: true,
  proxyTrust(request) {
    // Alone, although it forwards: its peer is not trusted. So are all if trustProxy is a number, which says nothing.
    if (request.ips === undefined || request.ips.length === 1) return 'none';
    // A hundred made-up proxies: who trusts the last of them trusts everybody.
    const forwarded = Array.from({ length: 100 }, () => '203.0.113.1').join(', ');
    const raw = {
      headers: { 'x-forwarded-for': forwarded },
      socket: { remoteAddress: '203.0.113.1' },
    };
    const probe = Object.create(request, { raw: { value: raw } }) as FastifyRequest;
    return probe.ips?.length === 101 ? 'all' : 'some';
  },
};

/** Fastify writes names in lower case, and is faster where they are so already and V8 knows them. */
const LOWER_CASE: Readonly<Record<string, string>> = {
  'X-RateLimit-Limit': 'x-ratelimit-limit',
  'X-RateLimit-Remaining': 'x-ratelimit-remaining',
  'X-RateLimit-Reset': 'x-ratelimit-reset',
  'RateLimit-Limit': 'ratelimit-limit',
  'RateLimit-Remaining': 'ratelimit-remaining',
  'RateLimit-Reset': 'ratelimit-reset',
  RateLimit: 'ratelimit',
  'RateLimit-Policy': 'ratelimit-policy',
  'Retry-After': 'retry-after',
  'Cache-Control': 'cache-control',
};

class FastifyExchange implements Exchange<FastifyRequest> {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly raw: FastifyRequest['raw'];
  readonly response: FastifyReply['raw'];

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.request = request;
    this.reply = reply;
    this.raw = request.raw;
    this.response = reply.raw;
  }

  set(name: string, value: string): void {
    this.reply.header(LOWER_CASE[name] ?? name, value);
  }
}

/** Fastify answers an error that it has no handler for itself; then the problem is sent instead. */
const FASTIFY_HANDLER = 'defaultErrorHandler';
/** Marks the config of a route that has an error handler of its own, which a request does not show. */
const OWN_HANDLER = Symbol('tollgate.errorHandler');

// Async, since Fastify does not catch what a plugin with a callback throws.
const plugin: FastifyPluginAsync<FastifyOptions> = async (app, options) => {
  // Without a logger of its own Fastify's discards everything, mistakes that must be heard of included.
  const logger = app.log.level === undefined ? undefined : app.log;
  const gate = new Gate<FastifyRequest>({ ...(logger && { logger }), ...options }, ADAPTER);
  const usual = gate.lane();
  const lanes = new WeakMap<object, Lane<FastifyRequest>>();

  /** The lane of a route; undefined where it is not limited. Only the nearest gate takes a route's changes. */
  function laneOf(
    route: unknown,
    nearest: boolean,
    path: string,
  ): Lane<FastifyRequest> | undefined {
    if (route === false) return undefined;
    if (route === undefined || route === true || !nearest) return usual;
    if (typeof route !== 'object' || route === null) return gate.lane(route as never, path);
    let lane = lanes.get(route);
    if (lane === undefined) {
      lane = gate.lane(route, path);
      lanes.set(route, lane);
    }
    return lane;
  }

  function pass(stage: Stage, request: FastifyRequest, reply: FastifyReply, next: Next): void {
    try {
      const route = request.routeOptions.config.rateLimit;
      const lane = laneOf(route, request.server.tollgate === gate, 'config.rateLimit');
      if (lane === undefined || gate.isOpen(lane, stage)) return next();
      const exchange = new FastifyExchange(request, reply);
      const outcome = gate.pass(exchange, lane, stage);
      const done =
        outcome instanceof Promise
          ? outcome.then((late) => finish(gate, exchange, late, next))
          : finish(gate, exchange, outcome, next);
      if (done instanceof Promise) done.catch(next);
    } catch (error) {
      next(error as Error);
    }
  }

  app.addHook('onRoute', function onRoute(route) {
    laneOf(route.config?.rateLimit, this.tollgate === gate, `${route.url} config.rateLimit`);
    if (route.errorHandler !== undefined) {
      route.config = Object.assign({}, route.config, { [OWN_HANDLER]: true });
    }
  });
  if (!Object.hasOwn(app, 'tollgate')) app.decorate('tollgate', gate);
  if (!app.hasRequestDecorator('rateLimit')) app.decorateRequest('rateLimit', undefined);
  app.addHook('onRequest', function tollgate(request, reply, next) {
    pass('onRequest', request, reply, next);
  });
  app.addHook('preHandler', function tollgate(request, reply, next) {
    if (!gate.asksInPreHandler) return next();
    pass('preHandler', request, reply, next);
  });
  app.addHook('onClose', () => gate.close());
};

type Next = (error?: Error) => void;

function finish(
  gate: Gate<FastifyRequest>,
  exchange: FastifyExchange,
  outcome: Outcome,
  next: Next,
): MaybePromise<void> {
  if (outcome === 'gone') return;
  const { request, reply } = exchange;
  if (outcome !== undefined) request.rateLimit = outcome;
  if (outcome === undefined || outcome.allowed) return next();
  if (reply.raw.headersSent) {
    // Begun by a hook before the gate. Fastify 5.6, for one, cannot end it and throws where nobody catches.
    reply.hijack();
    if (!reply.raw.writableEnded) reply.raw.destroy();
    return;
  }
  const { config } = request.routeOptions;
  if (request.server.errorHandler.name !== FASTIFY_HANDLER || OWN_HANDLER in config) {
    const refusal = new TollgateRefusal(outcome);
    // A handler that says nothing of the status must not answer 200.
    reply.code(refusal.statusCode);
    return next(refusal);
  }
  const refusal = gate.refusal(exchange, outcome);
  if (refusal instanceof Promise) return refusal.then((late) => send(reply, late));
  send(reply, refusal);
}

function send(reply: FastifyReply, { status, type, body }: Refusal): void {
  // Bytes, since Fastify would add a charset, which JSON does not have, to the type of a text.
  reply.code(status).header('content-type', type).send(body);
}

/**
 * Fastify plugin that limits requests: `await app.register(tollgate, { … })`, and per route `config.rateLimit`.
 * It covers the context it is registered in and those below, routes declared earlier included.
 */
export const tollgate: FastifyPluginAsync<FastifyOptions> = fp(plugin, {
  fastify: '5.x',
  name: '@tollgate/fastify',
});

export default tollgate;
