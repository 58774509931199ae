import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type {
  Decision,
  Gate,
  GateOptions,
  HttpRequest,
  MaybePromise,
  RouteOptions,
} from '@tollgate/core';

/** A request as every framework shows it to handlers and to the functions of the options. */
export interface AppRequest extends HttpRequest {
  readonly rateLimit?: Decision | undefined;
}

export type AppGate = GateOptions<AppRequest>;

export interface Call {
  readonly request: AppRequest;
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
}

export interface Answer {
  /** Default 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Readable;
}

/** Undefined stands for a plain 200. */
export type Handler = (call: Call) => Answer | undefined | Promise<Answer | undefined>;

/** Undefined lets the request go on. */
export type Step = (call: Call) => Answer | undefined | Promise<Answer | undefined>;

export interface Route {
  /** Default GET. */
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'OPTIONS';
  readonly path: string;
  /** As in Fastify's `config.rateLimit`. In Express false is a route declared before the gates. */
  readonly rateLimit?: RouteOptions<AppRequest> | boolean;
  /** Default answers 200. */
  readonly handler?: Handler;
  /** The handler writes to `call.response` itself. */
  readonly takesOver?: boolean;
}

/** One application, told so that it can be built in any framework. */
export interface App {
  /** In the order in which requests meet them; a route's `rateLimit` goes to the first. */
  readonly gates: readonly AppGate[];
  /** Default GET and POST of `/`. */
  readonly routes?: readonly Route[];
  /** Fastify's `trustProxy`, Express's `trust proxy`. */
  readonly trust?:
    | boolean
    | number
    | string
    | string[]
    | ((address: string, hop: number) => boolean);
  /** Steps before and after the gates. */
  readonly before?: readonly Step[];
  readonly after?: readonly Step[];
  /** The application's own error handler; refusals go there too. */
  readonly onError?: (error: unknown, call: Call) => Answer | Promise<Answer>;
  /** Default a free port of 127.0.0.1. */
  readonly listen?: { readonly host: string; readonly port: 0 } | { readonly path: string };
}

/** What a test can reach of an application that listens. */
export interface Built {
  readonly http: Server;
  /** Of the first gate. */
  readonly gate: Pick<Gate<HttpRequest>, 'limiter' | 'rejections' | 'mostRefused' | 'close'> & {
    consume(raw: IncomingMessage): MaybePromise<Decision>;
  };
  /** What reached the framework's way of errors, in order. */
  readonly errors: readonly unknown[];
  readonly stop: () => Promise<void>;
}

/** What an application listens on that does not say so. */
export const LOOPBACK = { host: '127.0.0.1', port: 0 } as const;

export const PLAIN_ROUTES: readonly Route[] = [{ path: '/' }, { method: 'POST', path: '/' }];

/** Whether Express declares a route before the gates: the gates' own limits do not apply to it. */
export function isOutside({ rateLimit }: Route): boolean {
  return rateLimit === false || (typeof rateLimit === 'object' && rateLimit.inherit === false);
}

/** A body that is sent in several chunks. */
export function textStream(...chunks: string[]): Readable {
  return Readable.from(chunks.map((chunk) => Buffer.from(chunk)));
}

/** Reads a header that is sent once at most. */
export function header(name: string): (request: AppRequest) => string | undefined {
  return ({ headers }) => headers[name]?.toString();
}
