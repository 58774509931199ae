import { STATUS_CODES } from 'node:http';
import { type Decision, type GateOptions, TollgateConfigError } from '@tollgate/core';
import type { FastifyRequest } from 'fastify';
import type { ErrorResponseContext, FastifyRateLimitOptions } from './options.ts';

type Problem = NonNullable<GateOptions<FastifyRequest>['problem']>;

/** Bodies as theirs are: what errorResponseBuilder returns, or what Fastify makes of an error. */
export function problemOf({ errorResponseBuilder }: FastifyRateLimitOptions): Problem {
  return (request, decision) => {
    if (decision.reason === 'store-unavailable') {
      return errorBody(503, 'Requests cannot be counted at the moment');
    }
    const context = contextOf(decision);
    const answer = errorResponseBuilder?.(request, context);
    if (answer === undefined)
      return errorBody(429, `Rate limit exceeded, retry in ${context.after}`);
    const { statusCode } = answer as { statusCode?: unknown };
    if (statusCode !== 429) {
      throw new TollgateConfigError(
        'errorResponseBuilder',
        `returned the statusCode ${String(statusCode)}; a refusal is answered with 429`,
      );
    }
    return answer instanceof Error ? errorBody(429, answer.message) : answer;
  };
}

/** What Fastify makes of an error. */
function errorBody(statusCode: number, message: string): object {
  return { statusCode, error: STATUS_CODES[statusCode], message };
}

function contextOf({ binding, retryAfterMs }: Decision): ErrorResponseContext {
  const policy = binding?.policy;
  const window = policy !== undefined && 'window' in policy ? policy.window : 0;
  const ttl = retryAfterMs === Infinity ? window : retryAfterMs;
  return {
    statusCode: 429,
    ban: false,
    after: inWords(Math.ceil(ttl / 1_000)),
    max: binding?.limit ?? 0,
    ttl,
  };
}

function inWords(seconds: number): string {
  const sizes = { year: 31_557_600, day: 86_400, hour: 3_600, minute: 60 };
  const [unit, size] = Object.entries(sizes).find(([, each]) => seconds >= each) ?? ['second', 1];
  const count = Math.round(seconds / size);
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}
