import { type MaybePromise, TollgateConfigError } from '@tollgate/core';
import type { Request, Response } from 'express';

/** A function of the request, as theirs are. */
export type Of<T> = (request: Request, response: Response) => MaybePromise<T>;

/** The options of express-rate-limit 8. Those that are only named here cannot be carried over, and say so. */
export interface ExpressRateLimitOptions {
  readonly windowMs?: number | undefined;
  readonly limit?: number | Of<number> | undefined;
  readonly max?: number | Of<number> | undefined;
  readonly message?: unknown;
  readonly statusCode?: number | undefined;
  readonly legacyHeaders?: boolean | undefined;
  readonly headers?: boolean | undefined;
  readonly standardHeaders?: boolean | 'draft-6' | 'draft-7' | 'draft-8' | undefined;
  readonly identifier?: unknown;
  readonly skipFailedRequests?: boolean | undefined;
  readonly skipSuccessfulRequests?: boolean | undefined;
  readonly keyGenerator?: Of<string> | undefined;
  readonly ipv6Subnet?: unknown;
  readonly skip?: Of<boolean> | undefined;
  readonly passOnStoreError?: boolean | undefined;
  readonly requestPropertyName?: string | undefined;
  readonly logger?: unknown;
  readonly validate?: unknown;
  readonly store?: unknown;
  readonly handler?: unknown;
  readonly requestWasSuccessful?: unknown;
  readonly retryAfter?: unknown;
}

const CARRIED = [
  'windowMs',
  'limit',
  'max',
  'message',
  'statusCode',
  'legacyHeaders',
  'headers',
  'standardHeaders',
  'identifier',
  'skipFailedRequests',
  'skipSuccessfulRequests',
  'keyGenerator',
  'ipv6Subnet',
  'skip',
  'passOnStoreError',
  'requestPropertyName',
  'logger',
  'validate',
];

/** What has no exact counterpart, and the mend. */
const MENDS: Readonly<Record<string, string>> = {
  store:
    'stores do not fit each other; leave it out, and write rateLimit({ ...fromExpressRateLimit(options), store: redisStore(client) })',
  handler:
    'leave it out; problem(request, decision) shapes the body, onReject is told, and refusals: "next" hands the refusal to your error middleware',
  requestWasSuccessful:
    'leave it out; whether a response counts is said by its status: countOnly: (status) => … in the limit',
  retryAfter: 'leave it out; Retry-After says when the request is admitted, and nothing else',
};

/** @throws TollgateConfigError for an option that has no exact counterpart. */
export function refuseOthers(options: ExpressRateLimitOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError(
      '',
      `expected the options of express-rate-limit, got ${String(options)}`,
    );
  }
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined || value === null || CARRIED.includes(option)) continue;
    const mend =
      MENDS[option] ?? `express-rate-limit 8 has no such option; it has ${CARRIED.join(', ')}`;
    throw new TollgateConfigError(option, mend);
  }
  const { statusCode, requestPropertyName, validate } = options;
  if (statusCode !== undefined && statusCode !== 429) {
    throw new TollgateConfigError(
      'statusCode',
      'a refusal is answered with 429; leave it out, or take refusals: "next" and answer in your error middleware',
    );
  }
  if (requestPropertyName !== undefined && requestPropertyName !== 'rateLimit') {
    throw new TollgateConfigError(
      'requestPropertyName',
      'the decision is at request.rateLimit; leave it out and read it there',
    );
  }
  if (validate !== undefined && validate !== true) {
    throw new TollgateConfigError(
      'validate',
      'leave it out; mistakes in the options always throw, and what proxies hide is logged once',
    );
  }
}
