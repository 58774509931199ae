import { show, TollgateArgumentError, TollgateConfigError } from '../errors.ts';
import { refuseUnknown } from '../limits.ts';
import { andThen, type MaybePromise } from '../maybe-promise.ts';
import { clientIp } from './client-ip.ts';
import { hashed, remembering } from './hashed.ts';
import { type HttpRequest, type KeyFunction, routeOf } from './request.ts';

/** What to do with a request that carries no key of this kind. */
export interface OptionalKeyOptions {
  /**
   * True: the limit does not apply. Default false: the client's address is charged instead, as `ip:…`, so that leaving
   * the key out lifts no limit.
   */
  readonly optional?: boolean;
}

export interface ApiKeyOptions extends OptionalKeyOptions {
  /** The header that carries the key, in any case; default `x-api-key`. */
  readonly header?: string;
}

/** RFC 9110's token. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const BEARER = /^bearer +([^\s,]+)\s*(?:,|$)/i;

/**
 * Keys a limit by an API key in a header, as `key:` and a hash: no log, store or response ever holds the key itself.
 *
 * A header sent several times counts as its first value, up to the first comma; an empty one counts as none. The key is
 * taken as sent, not checked, so a caller gets a fresh budget by inventing another: put a limit by address beside it.
 *
 * @throws TollgateConfigError for a header that cannot be one, or an unknown option.
 */
export function apiKey<R extends HttpRequest = HttpRequest>(
  options: ApiKeyOptions = {},
): KeyFunction<R> {
  checkOptions(options, ['header', 'optional'], 'apiKey');
  const { header = 'x-api-key', optional = false } = options;
  if (typeof header !== 'string' || !HEADER_NAME.test(header)) {
    throw new TollgateConfigError(
      'apiKey.header',
      `expected the name of a header, such as "x-api-key", got ${show(header)}`,
    );
  }
  return headerKey(header.toLowerCase(), firstOfList, 'key:', optional);
}

/**
 * Keys a limit by the token of `Authorization: Bearer …`, as `bearer:` and a hash: no log, store or response ever holds
 * the token itself. The scheme may be written in any case; another scheme, or more than one word behind it, counts as
 * no token. What `apiKey` says of headers sent several times and of invented values is true here too.
 *
 * @throws TollgateConfigError for an unknown option.
 */
export function bearerToken<R extends HttpRequest = HttpRequest>(
  options: OptionalKeyOptions = {},
): KeyFunction<R> {
  checkOptions(options, ['optional'], 'bearerToken');
  const { optional = false } = options;
  return headerKey('authorization', (text) => BEARER.exec(text)?.[1], 'bearer:', optional);
}

/**
 * Keys a limit by what the application knows of the caller, such as a user or an account, as `tenant:…`. The function
 * may be async.
 *
 * @throws TollgateConfigError for anything but a function, or an unknown option.
 */
export function tenant<R extends HttpRequest = HttpRequest>(
  of: (request: R) => MaybePromise<string | undefined>,
  options: OptionalKeyOptions = {},
): KeyFunction<R> {
  checkFunction(of, 'tenant', 'tenant((request) => request.user?.account)');
  checkOptions(options, ['optional'], 'tenant');
  const { optional = false } = options;
  const byAddress = clientIp();
  return (request) =>
    andThen(of(request), (name) => {
      if (name === undefined) return optional ? undefined : `ip:${byAddress(request)}`;
      // The gate refuses what is no key; written into a text it would pass.
      return isKey(name) ? `tenant:${name}` : name;
    });
}

/** Gives all requests one budget. */
export function everyone<R = HttpRequest>(): (request: R) => string {
  return () => 'everyone';
}

/** Keys a limit by the route that a request matched, as `routeOf` writes it: all callers of a route share its budget. */
export function route<R extends HttpRequest = HttpRequest>(): (request: R) => string {
  return routeOf;
}

/**
 * Keys a limit by whatever the function returns, as it is. It may be async. Undefined means that the limit does not
 * apply; anything else but a non-empty string is refused when the request comes.
 *
 * @throws TollgateConfigError for anything but a function.
 */
export function custom<R = HttpRequest>(
  key: (request: R) => MaybePromise<string | undefined>,
): KeyFunction<R> {
  checkFunction(key, 'custom', 'custom((request) => …)');
  return key;
}

/**
 * Hashes what a key function returns, as `secret:…`: for values that no log, store or response may hold. A value that
 * can be guessed, such as an e-mail address, can be found again by hashing the guess.
 *
 * A value that is neither a string nor undefined is refused with a TollgateArgumentError that does not show it.
 *
 * @throws TollgateConfigError for anything but a function.
 */
export function secret<R = HttpRequest>(key: KeyFunction<R>): KeyFunction<R> {
  checkFunction(key, 'secret', 'secret(custom((request) => …))');
  const hashOf = remembering((value) => hashed('secret:', value));
  return marked(
    (request) =>
      andThen(key(request), (value) => {
        if (value === undefined || value === '') return value;
        if (isKey(value)) return hashOf(value);
        throw new TollgateArgumentError(
          `The key function in secret() must return a string or undefined; it returned a value of type ${typeof value}.`,
        );
      }),
    [key],
  );
}

/**
 * Keys a limit by several things at once, such as `all(clientIp(), route())`: every combination has its own budget.
 * The parts are joined by `|`; a `|` or `\` inside one is escaped, so that no two combinations are written alike.
 *
 * The parts are asked in turn, and none behind the first that returns no key. If that is undefined the limit does not
 * apply. One part that callers choose freely is enough to give them fresh budgets.
 *
 * @throws TollgateConfigError for no parts, or one that is no function.
 */
export function all<R = HttpRequest>(...parts: readonly KeyFunction<R>[]): KeyFunction<R> {
  checkParts(parts, 'all');
  const from = (index: number, joined: string, request: R): MaybePromise<string | undefined> => {
    const part = parts[index];
    if (part === undefined) return joined;
    const front = index === 0 ? '' : `${joined}|`;
    return andThen(part(request), (value) =>
      isKey(value) ? from(index + 1, front + escaped(value), request) : value,
    );
  };
  return marked((request) => from(0, '', request), parts);
}

/**
 * Keys a limit by the first of several that a request has, such as `firstOf(apiKey({ optional: true }), clientIp())`,
 * as that one returns it: parts whose values may be alike need a `tenant` or `secret` around them. The parts are asked
 * in turn. If all return undefined the limit does not apply.
 *
 * @throws TollgateConfigError for no parts, or one that is no function.
 */
export function firstOf<R = HttpRequest>(...parts: readonly KeyFunction<R>[]): KeyFunction<R> {
  checkParts(parts, 'firstOf');
  const from = (index: number, request: R): MaybePromise<string | undefined> => {
    const part = parts[index];
    const next = (value: string | undefined): MaybePromise<string | undefined> =>
      value === undefined ? from(index + 1, request) : value;
    return part && andThen(part(request), next);
  };
  return marked((request) => from(0, request), parts);
}

function headerKey(
  header: string,
  read: (text: string) => string | undefined,
  namespace: string,
  optional: boolean,
): KeyFunction {
  const keyOf = remembering((text) => {
    const value = read(text);
    return value === undefined ? undefined : hashed(namespace, value);
  });
  const byAddress = clientIp();
  const key: KeyFunction = (request) => {
    const sent = request.headers[header];
    const text: unknown = Array.isArray(sent) ? sent[0] : sent;
    const found = typeof text === 'string' ? keyOf(text) : undefined;
    return found === undefined && !optional ? `ip:${byAddress(request)}` : found;
  };
  return Object.assign(key, { chosenByCaller: true });
}

/** The first value of a header; Node joins those that were sent several times with commas. */
function firstOfList(text: string): string | undefined {
  const comma = text.indexOf(',');
  const value = (comma === -1 ? text : text.slice(0, comma)).trim();
  return value === '' ? undefined : value;
}

/** Whether a value is a key; types promise that it is one or undefined, and callers of plain JavaScript break them. */
function isKey(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function escaped(part: string): string {
  return part.includes('|') || part.includes('\\') ? part.replaceAll(/[\\|]/g, '\\$&') : part;
}

/** A key function that the caller may steer if one of its parts is. */
function marked<R>(
  key: (request: R) => MaybePromise<string | undefined>,
  parts: readonly KeyFunction<R>[],
): KeyFunction<R> {
  return Object.assign(key, {
    chosenByCaller: parts.some((part) => part.chosenByCaller === true),
  });
}

function checkFunction(value: unknown, path: string, example: string): void {
  if (typeof value === 'function') return;
  throw new TollgateConfigError(path, `expected a function, as in ${example}, got ${show(value)}`);
}

function checkParts(parts: readonly unknown[], path: string): void {
  const example = `${path}(apiKey(), clientIp())`;
  if (parts.length === 0) {
    throw new TollgateConfigError(path, `expected at least one key function, as in ${example}`);
  }
  for (const [index, part] of parts.entries()) checkFunction(part, `${path}[${index}]`, example);
}

function checkOptions(options: OptionalKeyOptions, known: readonly string[], path: string): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError(path, `expected options or nothing, got ${show(options)}`);
  }
  refuseUnknown(options, known, path);
  const { optional } = options;
  if (optional !== undefined && typeof optional !== 'boolean') {
    throw new TollgateConfigError(
      `${path}.optional`,
      `expected true or false, got ${show(optional)}`,
    );
  }
}
