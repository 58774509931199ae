import {
  clientIp,
  fixedWindow,
  type GateLimitOptions,
  type GateOptions,
  type MaybePromise,
  type PolicyInput,
  type Stage,
  TollgateConfigError,
} from '@tollgate/core';
import type { FastifyRequest } from 'fastify';
import { problemOf } from './error-body.ts';
import { type FastifyRateLimitOptions, refuseOthers } from './options.ts';
import { windowOf } from './time-window.ts';

/** What a gate takes, with the one limit that the options were. */
export interface FromFastifyRateLimit extends GateOptions<FastifyRequest> {
  readonly limits: readonly [GateLimitOptions<FastifyRequest>];
}

const NAME = /^[A-Za-z][\w-]{0,63}$/;
const DEFAULTS = { max: 1_000, timeWindow: 60_000, ipv6Subnet: 64 } as const;

const FIELDS = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'];

/**
 * The options of @fastify/rate-limit, as this package takes them: `app.register(tollgate, fromFastifyRateLimit(options))`,
 * and for a route `config: { rateLimit: { limits: fromFastifyRateLimit(options).limits, inherit: false } }`. The limit is
 * named after `nameSpace`, else `"default"`; each in a gate needs a name of its own.
 *
 * Requests are admitted, answered and told of as before, with these differences: windows are counted from the epoch and
 * not from a key's first request; the three numbers stand in `RateLimit-*`, since a `Reset` in seconds under the name
 * `X-RateLimit-Reset` is none of ours; the body is `application/problem+json` with the members that it had; a refusal
 * always has Retry-After (but with a max of 0, since no wait helps) and `Cache-Control: no-store`; a redirect with
 * nothing remaining has no rate-limit fields; requests without a route are limited, and those of routes declared before
 * the gate; a store that fails answers 503 and not 500.
 *
 * @throws TollgateConfigError with path and mend, for an option that cannot be carried over exactly.
 */
export function fromFastifyRateLimit(options: FastifyRateLimitOptions = {}): FromFastifyRateLimit {
  refuseOthers(options);
  const { skipOnError = false, onExceeded } = options;
  const keyOf = keysOf(options);
  const skip = skipOf(options, keyOf);
  const limit: GateLimitOptions<FastifyRequest> = {
    name: nameOf(options),
    policy: policyOf(options, keyOf),
    by: options.keyGenerator === undefined ? clientIp(addressOptions(options)) : keyOf,
    stage: stageOf(options),
    whenStoreFails: skipOnError ? 'allow' : 'deny',
    ...(skip !== undefined && { skip }),
  };
  return {
    limits: [limit],
    headers: showsHeaders(options) ? ['draft-6'] : false,
    chargePreflights: true,
    problem: problemOf(options),
    ...(onExceeded !== undefined && {
      onReject: (request) => andThen(keyOf(request), (key) => onExceeded(request, key)),
    }),
  };
}

function andThen<T, U>(
  value: MaybePromise<T>,
  then: (value: T) => MaybePromise<U>,
): MaybePromise<U> {
  return value instanceof Promise ? value.then(then) : then(value);
}

function nameOf({ nameSpace = 'default' }: FastifyRateLimitOptions): string {
  if (typeof nameSpace === 'string' && NAME.test(nameSpace)) return nameSpace;
  throw new TollgateConfigError(
    'nameSpace',
    'becomes the name of the limit: expected a letter and up to 63 letters, digits, "_" or "-"',
  );
}

function stageOf({ hook = 'onRequest' }: FastifyRateLimitOptions): Stage {
  if (hook === 'onRequest' || hook === 'preHandler') return hook;
  throw new TollgateConfigError(
    'hook',
    `there are "onRequest" and "preHandler", got ${String(hook)}; take "preHandler" where the key needs the body or a user`,
  );
}

type KeyOf = (request: FastifyRequest) => MaybePromise<string>;

/** Keys as their functions see them. Each request is asked once for its key, however many functions want it. */
function keysOf(options: FastifyRateLimitOptions): KeyOf {
  const { keyGenerator } = options;
  if (keyGenerator === undefined) {
    const address = clientIp(addressOptions(options));
    // They write a network without the length of its prefix.
    return (request) => address(request).replace(/\/\d+$/, '');
  }
  const known = new WeakMap<FastifyRequest, MaybePromise<string>>();
  return (request) => {
    const before = known.get(request);
    if (before !== undefined) return before;
    const key = andThen(keyGenerator(request), definite);
    known.set(request, key);
    return key;
  };
}

/** Undefined would mean here that the limit does not apply, and in theirs that all such requests share a budget. */
function definite(key: string | number): string {
  if (typeof key === 'string' || typeof key === 'number') return String(key);
  throw new TollgateConfigError(
    'keyGenerator',
    `returned ${String(key)}; return a text that says whose budget is charged`,
  );
}

function addressOptions({ ipv6Subnet = DEFAULTS.ipv6Subnet }: FastifyRateLimitOptions): {
  ipv6Prefix: number;
} {
  if (Number.isInteger(ipv6Subnet) && ipv6Subnet >= 0 && ipv6Subnet <= 128) {
    return { ipv6Prefix: ipv6Subnet };
  }
  throw new TollgateConfigError(
    'ipv6Subnet',
    `expected a whole number from 0 to 128, got ${String(ipv6Subnet)}`,
  );
}

function skipOf(
  { allowList }: FastifyRateLimitOptions,
  keyOf: KeyOf,
): GateLimitOptions<FastifyRequest>['skip'] {
  if (allowList === undefined || allowList === null) return undefined;
  if (typeof allowList === 'function') {
    return (request) => andThen(keyOf(request), (key) => allowList(request, key));
  }
  if (Array.isArray(allowList)) {
    return (request) => andThen(keyOf(request), (key) => allowList.includes(key));
  }
  throw new TollgateConfigError('allowList', 'expected an array of keys, or a function');
}

function policyOf(
  { max = DEFAULTS.max, timeWindow = DEFAULTS.timeWindow }: FastifyRateLimitOptions,
  keyOf: KeyOf,
): GateLimitOptions<FastifyRequest>['policy'] {
  const window = windowOf(timeWindow);
  if (typeof max !== 'function') return policy(max, window);
  return (request) =>
    andThen(
      andThen(keyOf(request), (key) => max(request, key)),
      (limit) => policy(limit, window),
    );
}

function policy(limit: unknown, window: number): PolicyInput {
  if (typeof limit === 'number' && Number.isSafeInteger(limit) && limit >= 0) {
    return fixedWindow({ limit, window });
  }
  throw new TollgateConfigError(
    'max',
    `expected a whole number of 0 or more, got ${String(limit)}`,
  );
}

/** Whether the three fields are sent, in answers of both kinds. */
function showsHeaders(options: FastifyRateLimitOptions): boolean {
  const { enableDraftSpec = false, addHeaders = {}, addHeadersOnExceeding = {} } = options;
  if (
    Object.entries(addHeaders).some(([field, sent]) => field === 'retry-after' && sent === false)
  ) {
    throw new TollgateConfigError(
      'addHeaders.retry-after',
      'leave it out; a refusal always says when to come back',
    );
  }
  const maps: Record<string, unknown>[] = [{ ...addHeaders }, { ...addHeadersOnExceeding }];
  const shown = maps.flatMap((map) =>
    FIELDS.map((field) => map[`${enableDraftSpec ? '' : 'x-'}${field}`] !== false),
  );
  if (new Set(shown).size === 1) return shown[0] === true;
  throw new TollgateConfigError(
    'addHeaders',
    'the fields are sent all together or not at all: set the three to false in addHeaders and in addHeadersOnExceeding, or none',
  );
}
