import type { IncomingMessage } from 'node:http';
import {
  type Adapter,
  type Decision,
  type Exchange,
  Gate,
  GATE_OPTIONS,
  type GateOptions,
  type Lane,
  type Limiter,
  type MaybePromise,
  type MostRefusedOptions,
  type Outcome,
  type Refusal,
  type Rejections,
  type RouteOptions,
  TollgateConfigError,
  TollgateRefusal,
} from '@tollgate/core';
import type { NextFunction, Request, RequestHandler, Response } from 'express';

export * from '@tollgate/core';
export {
  type FromExpressRateLimit,
  fromExpressRateLimit,
} from './moving/from-express-rate-limit.ts';
export type { ExpressRateLimitOptions } from './moving/options.ts';

declare global {
  // eslint-disable-next-line typescript/no-namespace -- Express's own way to add a property to its request
  namespace Express {
    interface Request {
      /** What the gates say that the request passed so far. */
      rateLimit?: Decision;
    }
  }
}

export interface ExpressOptions extends GateOptions<Request> {
  /** `"send"` answers a refusal, `"next"` hands it to the error middleware as a TollgateRefusal; default `"send"`. */
  readonly refusals?: 'send' | 'next';
}

/** Middleware, and the gate behind it. */
export interface ExpressGate extends RequestHandler {
  /** The same gate with what a route changes: dearer, or with more limits. */
  with(route: RouteOptions<Request>): RequestHandler;
  readonly limiter: Limiter;
  /** Decides on an upgrade, or anything else outside Express. The caller answers. */
  consume(request: IncomingMessage): MaybePromise<Decision>;
  rejections(): Rejections;
  /** The keys refused most in the last day, of this process or of the fleet. */
  readonly mostRefused: Gate<Request>['mostRefused'];
  close(): MaybePromise<void>;
}

const ADAPTER: Adapter<Request> = {
  options: [...GATE_OPTIONS, 'refusals'],
  staged: false,
  proxyTrust({ app, socket }) {
    const trusts = app.get('trust proxy fn') as (address: string, hop: number) => boolean;
    if (!trusts(socket.remoteAddress ?? '', 0)) return 'none';
    return trusts('203.0.113.1', 100) ? 'all' : 'some';
  },
};

class ExpressExchange implements Exchange<Request> {
  readonly request: Request;
  readonly raw: IncomingMessage;
  readonly response: Response;
  private setHeader: Response['setHeader'] | undefined = undefined;

  constructor(request: Request, response: Response) {
    this.request = request;
    this.raw = request;
    this.response = response;
  }

  set(name: string, value: string): void {
    // Looked up once, since V8 knows no shape of a request or response of Express's and has to search for its members.
    // eslint-disable-next-line typescript/unbound-method -- it is called with its response
    this.setHeader ??= this.response.setHeader;
    try {
      this.setHeader.call(this.response, name, value);
    } catch (error) {
      // Else it was begun by somebody before the gate.
      if (!this.response.headersSent) throw error;
    }
  }
}

/**
 * Express middleware that limits requests: `app.use(rateLimit({ … }))`, and per route `gate.with({ … })`.
 *
 * @throws TollgateConfigError with the path of the option at fault and the mend.
 */
export function rateLimit(options: ExpressOptions): ExpressGate {
  const gate = new Gate<Request>(options, ADAPTER);
  const { refusals = 'send' } = options;
  if (refusals !== 'send' && refusals !== 'next') {
    throw new TollgateConfigError('refusals', 'expected "send" or "next"');
  }
  function finish(
    exchange: ExpressExchange,
    outcome: Outcome,
    next: NextFunction,
  ): MaybePromise<void> {
    if (outcome === 'gone') return;
    const { request, response } = exchange;
    if (outcome !== undefined) request.rateLimit = outcome;
    if (outcome === undefined || outcome.allowed) return next();
    if (refusals === 'next') {
      const refusal = new TollgateRefusal(outcome);
      // A handler that says nothing of the status must not answer 200.
      if (!response.headersSent) response.statusCode = refusal.status;
      return next(refusal);
    }
    const refusal = gate.refusal(exchange, outcome);
    if (refusal instanceof Promise) return refusal.then((late) => send(response, late));
    send(response, refusal);
  }
  const middleware = (lane: Lane<Request>): RequestHandler =>
    function tollgate(request, response, next) {
      try {
        const exchange = new ExpressExchange(request, response);
        const outcome = gate.pass(exchange, lane, 'onRequest');
        const done =
          outcome instanceof Promise
            ? outcome.then((late) => finish(exchange, late, next))
            : finish(exchange, outcome, next);
        if (done instanceof Promise) done.catch(next);
      } catch (error) {
        next(error);
      }
    };
  return Object.assign(middleware(gate.lane()), {
    with: (route: RouteOptions<Request>) => middleware(gate.lane(route, 'with')),
    limiter: gate.limiter,
    consume: (request: IncomingMessage) => gate.consume(request as Request),
    rejections: () => gate.rejections(),
    mostRefused: <Fleet extends boolean = false>(
      name?: string,
      options?: MostRefusedOptions<Fleet>,
    ) => gate.mostRefused(name, options),
    close: () => gate.close(),
  });
}

function send(response: Response, { status, type, body }: Refusal): void {
  if (response.headersSent) {
    // Begun by somebody before the gate, and those behind it, who might end it, are not reached.
    if (!response.writableEnded) response.destroy();
    return;
  }
  response.statusCode = status;
  response.setHeader('Content-Type', type);
  response.setHeader('Content-Length', body.byteLength);
  response.end(body);
}
