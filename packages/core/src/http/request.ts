import type { IncomingHttpHeaders } from 'node:http';
import type { MaybePromise } from '../maybe-promise.ts';

/**
 * What is read of a request: Fastify's, Express's and Node's own (`IncomingMessage`, `Http2ServerRequest`) all have
 * this shape.
 */
export interface HttpRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly originalUrl?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** The client's address as the framework sees it, through the proxies that it trusts. */
  readonly ip?: string | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | undefined;
  /** Fastify's matched route. */
  readonly routeOptions?: { readonly url?: string | undefined } | undefined;
  /** Express's matched route. */
  readonly route?: { readonly path?: unknown } | undefined;
  /** Where Express mounted the router of the matched route. */
  readonly baseUrl?: string | undefined;
}

/** Says whose budget a request is charged to. */
export interface KeyFunction<R = HttpRequest> {
  /** Returns the key, a non-empty string, or undefined where the limit does not apply to the request. */
  (request: R): MaybePromise<string | undefined>;
  /**
   * Whether a caller gets a fresh budget by sending another value, as with the key in a header that nobody has checked
   * yet. Such a limit does not hold an attacker, so it wants one by address beside it. Default false.
   */
  readonly chosenByCaller?: boolean;
}

const NO_ROUTE = '(no route)';

/**
 * The client's address as the framework says it, else that of the socket; undefined on a Unix socket.
 *
 * What a trusted proxy forwarded is returned as it is, even if it is no address: a list of allowed addresses must not
 * mistake a forged entry for the proxy in front.
 */
export function addressOf(request: HttpRequest): string | undefined {
  return request.ip ?? request.socket?.remoteAddress;
}

/**
 * The method and pattern of the route that a request matched, such as `GET /users/:id`; HEAD counts as GET. Requests
 * without a route share `(no route)`, whatever their method and URL, since a caller chooses those freely.
 *
 * Express knows the route inside the route only: under `app.use()` every request is without one. It shows the text of
 * a mount path, not its pattern: below a router mounted at `/:tenant` each tenant's routes are routes of their own.
 */
export function routeOf(request: HttpRequest): string {
  const pattern = request.routeOptions?.url ?? expressPattern(request);
  if (pattern === undefined) return NO_ROUTE;
  const { method = 'GET' } = request;
  return `${method === 'HEAD' ? 'GET' : method} ${pattern}`;
}

function expressPattern({ baseUrl = '', route }: HttpRequest): string | undefined {
  const path = route?.path;
  if (typeof path !== 'string' && !(path instanceof RegExp) && !Array.isArray(path)) {
    return undefined;
  }
  // Express matches a mount path in any case, and shows it as the caller wrote it.
  return `${baseUrl.toLowerCase()}${String(path)}`;
}
