import type { HttpRequest } from '@tollgate/core';
import { CLF_LENGTH, clfTime } from './clf-time.ts';
import { type LogRequest, type Read, routeOptionsOf } from './request.ts';

type Fields = Readonly<Record<string, unknown>>;

/** What loggers call the same thing; the first that a line has counts. */
const METHODS = ['method', 'request_method', 'requestMethod', 'http_method'];
const URLS = ['originalUrl', 'url', 'request_uri', 'uri', 'requestUrl', 'path'];
const ADDRESSES = [
  'remoteAddress',
  'ip',
  'remote_addr',
  'remote-addr',
  'remoteAddr',
  'client_ip',
  'clientIp',
  'remote_ip',
  'remoteIp',
  'address',
];
const TIMES = [
  'time',
  'timestamp',
  '@timestamp',
  'date',
  'ts',
  'datetime',
  'time_iso8601',
  'time_local',
];
const MILLISECONDS = [
  'responseTime',
  'response-time',
  'response_time',
  'responseTimeMs',
  'duration_ms',
];
const SECONDS = ['request_time'];

const NO_HEADERS = {};

class JsonRequest implements LogRequest {
  readonly time: number;
  readonly method: string;
  readonly url: string;
  readonly ip: string | undefined;
  readonly headers: HttpRequest['headers'];
  readonly duration: number | undefined;
  readonly fields: object;

  constructor(
    time: number,
    method: string,
    url: string,
    ip: string | undefined,
    headers: HttpRequest['headers'],
    duration: number | undefined,
    fields: object,
  ) {
    this.time = time;
    this.method = method;
    this.url = url;
    this.ip = ip;
    this.headers = headers;
    this.duration = duration;
    this.fields = fields;
  }

  get routeOptions(): { readonly url: string } {
    return routeOptionsOf(this.url);
  }
}

function objectOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null ? (value as Fields) : undefined;
}

function first(fields: Fields, names: readonly string[]): unknown {
  for (let i = 0; i < names.length; i++) {
    const value = fields[names[i] as string];
    if (value !== undefined && value !== null && value !== '' && value !== '-') return value;
  }
  return undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Milliseconds since the epoch of a time in any of the forms that loggers write; NaN where it is none. */
function timeOf(value: unknown): number {
  if (typeof value === 'number') {
    // Seconds, milliseconds, microseconds or nanoseconds: each is a thousand times the other, and all mean this century.
    if (value < 1e11) return value * 1e3;
    if (value < 1e14) return value;
    return value < 1e17 ? value / 1e3 : value / 1e6;
  }
  if (typeof value !== 'string') return NaN;
  if (value.charCodeAt(2) === 0x2f && value.length >= CLF_LENGTH) return clfTime(value, 0);
  const number = Number(value);
  return Number.isNaN(number) ? Date.parse(value) : timeOf(number);
}

function durationOf(fields: Fields): number | undefined {
  const ms = Number(first(fields, MILLISECONDS) ?? NaN);
  const known = Number.isNaN(ms) ? Number(first(fields, SECONDS) ?? NaN) * 1e3 : ms;
  return known >= 0 ? Math.round(known * 1e3) : undefined;
}

/**
 * Reads a line of JSON as pino writes it, by itself, through pino-http or through Fastify, as morgan does with a
 * format of JSON, or as nginx does. Lines about something else than a request that came hold none; so do those in
 * which Fastify says that a request was completed, since another line said that it came.
 *
 * Where a line says how long the request took, it was written at its end: it came that much earlier.
 */
export function readJson(line: string): Read {
  let fields: Fields | undefined;
  try {
    fields = objectOf(JSON.parse(line));
  } catch {
    return 'is no whole JSON';
  }
  if (fields === undefined || Array.isArray(fields)) return 'is no object';
  const request = objectOf(fields['req']) ?? objectOf(fields['request']) ?? fields;
  let method = textOf(first(request, METHODS));
  let url = textOf(first(request, URLS));
  if (url === undefined) {
    [method, url] = textOf(fields['request'])?.split(' ') ?? [];
  }
  if (method === undefined || url === undefined || url === '') return null;
  const ms = timeOf(first(fields, TIMES));
  if (!(ms >= 0 && ms < 8.64e15)) return 'has no time';
  const ip = textOf(first(request, ADDRESSES) ?? first(fields, ADDRESSES));
  const duration = durationOf(fields);
  const time = Math.max(0, Math.round(ms * 1e3) - (duration ?? 0));
  const headers = (objectOf(request['headers']) ?? NO_HEADERS) as HttpRequest['headers'];
  return new JsonRequest(time, method, url, ip, headers, duration, fields);
}

/** The value at a path of a line, from its top or within its request, by own properties only. */
export function fieldOf(fields: object | undefined, path: readonly string[]): unknown {
  if (fields === undefined) return undefined;
  const value = valueAt(fields, path);
  return value === undefined ? valueAt((fields as Fields)['req'], path) : value;
}

function valueAt(from: unknown, path: readonly string[]): unknown {
  let value = from;
  for (let i = 0; i < path.length; i++) {
    const name = path[i] as string;
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name))
      return undefined;
    value = (value as Fields)[name];
  }
  return value;
}
