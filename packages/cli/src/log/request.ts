import type { HttpRequest } from '@tollgate/core';

/** A request as a line of a log tells it, in the shape that key functions read. */
export interface LogRequest extends HttpRequest {
  /** When it came, in integer microseconds since the epoch. */
  readonly time: number;
  readonly method: string;
  readonly url: string;
  readonly ip: string | undefined;
  /** The path without its query: a log knows no pattern. */
  readonly routeOptions: { readonly url: string };
  /** How long it took, in microseconds, where the line says so. */
  readonly duration: number | undefined;
  /** All that a line of JSON holds. */
  readonly fields: object | undefined;
}

/** A line is a request, holds none (null), or is bad for a reason. */
export type Read = LogRequest | null | string;

/** What a log can tell of a matched route. */
export function routeOptionsOf(url: string): { readonly url: string } {
  const query = url.indexOf('?');
  return { url: query === -1 ? url : url.slice(0, query) };
}
