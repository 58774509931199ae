import { type MaybePromise, TollgateConfigError } from '@tollgate/core';
import type { FastifyRequest } from 'fastify';

/** What errorResponseBuilder is told of a refusal. */
export interface ErrorResponseContext {
  statusCode: number;
  ban: boolean;
  /** The wait in words. */
  after: string;
  max: number;
  /** The wait in milliseconds. */
  ttl: number;
}

/** The options of @fastify/rate-limit 11. Those that are only named here cannot be carried over, and say so. */
export interface FastifyRateLimitOptions {
  readonly max?:
    | number
    | ((request: FastifyRequest, key: string) => MaybePromise<number>)
    | undefined;
  readonly timeWindow?: unknown;
  readonly keyGenerator?: ((request: FastifyRequest) => MaybePromise<string | number>) | undefined;
  readonly ipv6Subnet?: number | undefined;
  readonly allowList?:
    | readonly string[]
    | ((request: FastifyRequest, key: string) => MaybePromise<boolean>)
    | undefined;
  readonly hook?: string | undefined;
  readonly nameSpace?: string | undefined;
  readonly errorResponseBuilder?:
    | ((request: FastifyRequest, context: ErrorResponseContext) => object)
    | undefined;
  readonly onExceeded?: ((request: FastifyRequest, key: string) => void) | undefined;
  readonly skipOnError?: boolean | undefined;
  readonly enableDraftSpec?: boolean | undefined;
  readonly addHeaders?: object | undefined;
  readonly addHeadersOnExceeding?: object | undefined;
  readonly global?: boolean | undefined;
  readonly ban?: number | undefined;
  readonly continueExceeding?: boolean | undefined;
  readonly exponentialBackoff?: boolean | undefined;
  readonly onBanReach?: unknown;
  readonly onExceeding?: unknown;
  readonly groupId?: unknown;
  readonly cache?: unknown;
  readonly redis?: unknown;
  readonly store?: unknown;
}

const CARRIED = [
  'max',
  'timeWindow',
  'keyGenerator',
  'ipv6Subnet',
  'allowList',
  'hook',
  'nameSpace',
  'errorResponseBuilder',
  'onExceeded',
  'skipOnError',
  'enableDraftSpec',
  'addHeaders',
  'addHeadersOnExceeding',
];

const STORE =
  'stores do not fit each other; leave it out, and register { ...fromFastifyRateLimit(options), store: redisStore(client) }';

/** What has no exact counterpart, and the mend. */
const MENDS: Readonly<Record<string, string>> = {
  store: STORE,
  redis: STORE,
  cache:
    'leave it out; 500,000 keys are held, or as many as store: memoryStore({ maxKeys }) says, and none at its limit is forgotten first',
  ban: 'leave it out; ban: { after, within, for } in the limit bans for a time, by 429',
  onBanReach: 'leave it out; a banned request is told to onReject, by decision.reason',
  onExceeding: 'leave it out; onDecision is told of every decision',
  groupId: 'leave it out; give one limit to several routes, and they share its budget',
  continueExceeding:
    'leave it out; a refusal never makes a wait longer, ban: { after, within, for } in the limit does',
  exponentialBackoff:
    'leave it out; ban: { after, within, for, growth: 2 } in the limit is longer each time',
  global:
    'leave it out; to limit some routes only give them config: { rateLimit: { limits: fromFastifyRateLimit(options).limits } }, and the gate limits: []',
};

/** Values that say nothing, of options that are not carried over. */
const NEUTRAL: Readonly<Record<string, unknown>> = {
  ban: -1,
  continueExceeding: false,
  exponentialBackoff: false,
  global: true,
};

/** @throws TollgateConfigError for an option that has no exact counterpart. */
export function refuseOthers(options: FastifyRateLimitOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError(
      '',
      `expected the options of @fastify/rate-limit, got ${String(options)}`,
    );
  }
  for (const [option, value] of Object.entries(options)) {
    if (
      value === undefined ||
      value === null ||
      CARRIED.includes(option) ||
      NEUTRAL[option] === value
    )
      continue;
    const mend =
      MENDS[option] ?? `@fastify/rate-limit 11 has no such option; it has ${CARRIED.join(', ')}`;
    throw new TollgateConfigError(option, mend);
  }
}
