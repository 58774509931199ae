import type { FieldKey, FileKeyPart, FileLimit, FileMatch } from '../limits-file.ts';
import { clientIp } from './client-ip.ts';
import type { GateLimitOptions } from './gate-options.ts';
import { all, custom, everyone, route, secret } from './keys.ts';
import { andThen } from '../maybe-promise.ts';
import type { HttpRequest, KeyFunction } from './request.ts';

/** Where the keys of a file's limits are read. The default reads a live request. */
export interface KeySource<R> {
  /** Default `clientIp()`. */
  readonly ip?: KeyFunction<R>;
  /** The value at a path, such as `headers.x-api-key`; default the request's own properties. */
  readonly field?: (request: R, path: readonly string[]) => unknown;
}

/** Names of fields whose values nobody may read in a log. */
const CREDENTIAL = /key|token|secret|passw|auth|cookie|session|credential/i;

/**
 * The limits of a file for a gate: `app.register(tollgate, { limits: gateLimits(file.limits) })`.
 *
 * A field becomes the key `field:…`, or `secret:` and a hash where its value is a secret; a request without it is
 * charged as `ip:…` unless the field is optional.
 */
export function gateLimits<R extends HttpRequest = HttpRequest>(
  limits: readonly FileLimit[],
  source: KeySource<R> = {},
): (GateLimitOptions<R> & { readonly by: KeyFunction<R> })[] {
  return limits.map(({ by = 'ip', match, ...limit }) => {
    const parts = (Array.isArray(by) ? by : [by]) as readonly FileKeyPart[];
    const [first, ...more] = parts.map((part) => keyFunction(part, source));
    if (first === undefined) throw new TypeError('a limit needs a key');
    const key = more.length === 0 ? first : all(first, ...more);
    return { ...limit, by: key, ...(match && { skip: skipUnless(match) }) };
  });
}

function keyFunction<R extends HttpRequest>(
  part: FileKeyPart,
  source: KeySource<R>,
): KeyFunction<R> {
  if (part === 'ip') return source.ip ?? clientIp();
  if (part === 'route') return route();
  if (part === 'everyone') return everyone();
  return fieldKey(part, source);
}

function fieldKey<R extends HttpRequest>(
  { field, optional = false, secret: hidden }: FieldKey,
  { ip = clientIp(), field: read = ownValue }: KeySource<R>,
): KeyFunction<R> {
  const path = field.split('.');
  const value = custom((request: R) => textOf(read(request, path)));
  const isSecret = hidden ?? CREDENTIAL.test(path.at(-1) ?? '');
  const key: KeyFunction<R> = isSecret
    ? secret(value)
    : (request) => andThen(value(request), (text) => text && `field:${text}`);
  if (optional) return Object.assign(key, { chosenByCaller: true });
  return Object.assign(
    (request: R) =>
      andThen(
        key(request),
        (found) => found ?? andThen(ip(request), (address) => address && `ip:${address}`),
      ),
    { chosenByCaller: true },
  );
}

/** What a path leads to, by own properties and the accessors that a framework's request class has. */
function ownValue(request: HttpRequest, path: readonly string[]): unknown {
  let value: unknown = request;
  for (const [depth, name] of path.entries()) {
    if (typeof value !== 'object' || value === null) return undefined;
    if (depth > 0 && !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function textOf(value: unknown): string | undefined {
  const one: unknown = Array.isArray(value) ? value[0] : value;
  if (typeof one === 'number' || typeof one === 'boolean') return String(one);
  return typeof one === 'string' && one !== '' ? one : undefined;
}

function skipUnless<R extends HttpRequest>({ method, path }: FileMatch): (request: R) => boolean {
  const methods = method === undefined ? undefined : new Set(listOf(method).map(upper));
  if (methods?.has('GET') === true) methods.add('HEAD');
  const prefixes = path === undefined ? undefined : listOf(path).map(plainPrefix);
  return (request) => {
    if (methods !== undefined && !methods.has(request.method ?? 'GET')) return true;
    if (prefixes === undefined) return false;
    const asked = plainPath(request.originalUrl ?? request.url ?? '/');
    return !prefixes.some(
      (prefix) =>
        asked.startsWith(prefix) &&
        (asked.length === prefix.length || asked[prefix.length] === '/'),
    );
  };
}

const listOf = (value: string | readonly string[]): readonly string[] =>
  typeof value === 'string' ? [value] : value;
const upper = (text: string): string => text.toUpperCase();

/** The prefix `/api/` means what `/api` does, and `/` every path. */
function plainPrefix(prefix: string): string {
  const plain = plainPath(prefix);
  return plain.endsWith('/') ? plain.slice(0, -1) : plain;
}

/**
 * The path of a URL as routers compare it: without a query, decoded, in lower case. A caller who writes it otherwise
 * reaches the same route, and must meet the same limit.
 */
function plainPath(url: string): string {
  let from = 0;
  if (!url.startsWith('/')) {
    const host = url.indexOf('://');
    from = host === -1 ? 0 : Math.max(0, url.indexOf('/', host + 3));
  }
  const query = url.indexOf('?', from);
  const path = url.slice(from, query === -1 ? undefined : query).toLowerCase();
  if (!path.includes('%')) return path;
  try {
    return decodeURI(path).toLowerCase();
  } catch {
    // No router decodes it either.
    return path;
  }
}
