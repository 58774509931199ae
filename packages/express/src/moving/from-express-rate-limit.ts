import {
  clientIp,
  type CountOnly,
  custom,
  fixedWindow,
  type GateLimitOptions,
  type GateOptions,
  type HeaderForm,
  type KeyFunction,
  type Logger,
  type MaybePromise,
  type PolicyInput,
  TollgateConfigError,
} from '@tollgate/core';
import type { Request, Response } from 'express';
import { type ExpressRateLimitOptions, type Of, refuseOthers } from './options.ts';

/** What a gate takes, with the one limit that the options were. */
export interface FromExpressRateLimit extends GateOptions<Request> {
  readonly limits: readonly [GateLimitOptions<Request>];
}

const NAME = /^[A-Za-z][\w-]{0,63}$/;
/** Theirs, for clients that look for it. */
const MESSAGE = 'Too many requests, please try again later.';
const UNAVAILABLE = 'Requests cannot be counted at the moment, please try again later.';

/**
 * The options of express-rate-limit, as this package takes them: `rateLimit(fromExpressRateLimit(options))`. The limit
 * is named after `identifier`, else `"default"`.
 *
 * Requests are admitted, answered and told of as before, with these differences: windows are counted from the epoch and
 * not from a key's first request; a body that is text is `text/plain`, an object `application/problem+json`; a refusal
 * always has Retry-After (but with a limit of 0, since no wait helps) and `Cache-Control: no-store`; parallel requests
 * of a limit that counts only some outcomes wait for one another rather than be refused; a redirect with nothing
 * remaining has no rate-limit fields; `draft-8` has no `pk`; a store that fails answers 503 and not 500.
 *
 * @throws TollgateConfigError with path and mend, for an option that cannot be carried over exactly.
 */
export function fromExpressRateLimit(options: ExpressRateLimitOptions = {}): FromExpressRateLimit {
  refuseOthers(options);
  const { skip, passOnStoreError = false, logger } = options;
  const countOnly = countOnlyOf(options);
  const limit: GateLimitOptions<Request> = {
    name: nameOf(options),
    policy: policyOf(options),
    by: keyOf(options),
    whenStoreFails: passOnStoreError ? 'allow' : 'deny',
    ...(countOnly !== undefined && { countOnly }),
    ...(skip !== undefined && { skip: withResponse(skip) }),
  };
  return {
    limits: [limit],
    headers: headersOf(options),
    chargePreflights: true,
    problem: problemOf(options),
    ...(logger !== undefined && { logger: logger as Logger }),
  };
}

/** Theirs hands the response to every function; Express keeps it at the request. */
function withResponse<T>(of: Of<T>): (request: Request) => MaybePromise<T> {
  return (request) => of(request, request.res as Response);
}

function nameOf({ identifier, standardHeaders }: ExpressRateLimitOptions): string {
  if (typeof identifier === 'string' && NAME.test(identifier)) return identifier;
  if (identifier === undefined && standardHeaders !== 'draft-8') return 'default';
  throw new TollgateConfigError(
    'identifier',
    identifier === undefined
      ? 'missing; draft-8 shows the limit by name, and a default like "5-in-1min" is no name of ours: give one that starts with a letter'
      : 'becomes the name of the limit: expected a letter and up to 63 letters, digits, "_" or "-"',
  );
}

function policyOf({ windowMs = 60_000, limit, max }: ExpressRateLimitOptions): Policies {
  checkWindow(windowMs);
  const most = limit ?? max ?? 5;
  if (typeof most !== 'function')
    return windowOf(most, windowMs, limit === undefined ? 'max' : 'limit');
  const mostOf = withResponse(most);
  return (request) => {
    const units = mostOf(request);
    return units instanceof Promise
      ? units.then((known) => windowOf(known, windowMs, 'limit'))
      : windowOf(units, windowMs, 'limit');
  };
}

type Policies = PolicyInput | ((request: Request) => MaybePromise<PolicyInput>);

function windowOf(limit: number, window: number, path: string): PolicyInput {
  if (!Number.isSafeInteger(limit) || limit < 0) {
    throw new TollgateConfigError(
      path,
      `expected a whole number of 0 or more, got ${String(limit)}`,
    );
  }
  return fixedWindow({ limit, window });
}

function checkWindow(windowMs: unknown): void {
  if (typeof windowMs === 'number' && windowMs >= 1 && windowMs <= 400 * 86_400_000) return;
  throw new TollgateConfigError(
    'windowMs',
    `expected milliseconds, from 1 to those of 400 days, got ${String(windowMs)}`,
  );
}

function keyOf({ keyGenerator, ipv6Subnet }: ExpressRateLimitOptions): KeyFunction<Request> {
  if (keyGenerator !== undefined) {
    const keyOfRequest = withResponse(keyGenerator);
    return custom((request) => {
      const key = keyOfRequest(request);
      return key instanceof Promise ? key.then(definite) : definite(key);
    });
  }
  const ipv6Prefix = ipv6Subnet === false ? 128 : (ipv6Subnet ?? 56);
  if (typeof ipv6Prefix === 'number' && Number.isInteger(ipv6Prefix)) {
    if (ipv6Prefix >= 1 && ipv6Prefix <= 128) return clientIp({ ipv6Prefix });
  }
  throw new TollgateConfigError(
    'ipv6Subnet',
    typeof ipv6Subnet === 'function'
      ? 'leave it out; write by: custom((request) => addressKey(request.ip, { ipv6Prefix: … })) in the limit'
      : `expected a whole number from 1 to 128, or false, got ${String(ipv6Subnet)}`,
  );
}

/** Undefined would mean here that the limit does not apply, and in theirs that all such requests share a budget. */
function definite(key: string): string {
  if (typeof key === 'string') return key;
  throw new TollgateConfigError(
    'keyGenerator',
    `returned ${String(key)}; return a text that says whose budget is charged`,
  );
}

function countOnlyOf(options: ExpressRateLimitOptions): CountOnly | undefined {
  const { skipFailedRequests = false, skipSuccessfulRequests = false } = options;
  if (skipFailedRequests && skipSuccessfulRequests) {
    throw new TollgateConfigError(
      'skipSuccessfulRequests',
      'stands beside skipFailedRequests, so that nothing counts; drop one of them',
    );
  }
  if (skipSuccessfulRequests) return 'failures';
  return skipFailedRequests ? 'successes' : undefined;
}

function headersOf(options: ExpressRateLimitOptions): readonly HeaderForm[] | false {
  const { legacyHeaders = options.headers ?? true, standardHeaders = false } = options;
  const forms: HeaderForm[] = legacyHeaders ? ['x-ratelimit'] : [];
  if (standardHeaders === true || standardHeaders === 'draft-6') forms.push('draft-6');
  else if (standardHeaders === 'draft-7') forms.push('draft-7');
  else if (standardHeaders === 'draft-8') forms.push('draft-11');
  else if (standardHeaders !== false) {
    throw new TollgateConfigError(
      'standardHeaders',
      `expected true, false, "draft-6", "draft-7" or "draft-8", got ${String(standardHeaders)}`,
    );
  }
  return forms.length === 0 ? false : forms;
}

function problemOf({
  message = MESSAGE,
}: ExpressRateLimitOptions): NonNullable<GateOptions<Request>['problem']> {
  const isBody = typeof message === 'string' || (typeof message === 'object' && message !== null);
  if ((!isBody && typeof message !== 'function') || ArrayBuffer.isView(message)) {
    throw new TollgateConfigError(
      'message',
      'expected a text, an object, or a function that returns one of them',
    );
  }
  const bodyOf =
    typeof message === 'function'
      ? withResponse(message as Of<object | string>)
      : () => message as object | string;
  return (request, { reason }) => (reason === 'store-unavailable' ? UNAVAILABLE : bodyOf(request));
}
