import { Decision } from '../src/decision.ts';
import type { Verdict } from '../src/verdict.ts';
import { DEFAULT_FORMS, type HeaderForm, rateLimitHeaders } from '../src/http/headers.ts';
import { fixedWindow, type Policy } from '../src/policy.ts';

export const NOW: number = 1_767_225_600_000;
export const minute: Policy = fixedWindow({ limit: 100, window: '60s' });

/** A verdict on `default`; `retryAfterMs` makes it a refusal. */
export function verdict(fields: Partial<Verdict> = {}): Verdict {
  const { policy = minute, retryAfterMs = 0 } = fields;
  const limit = 'capacity' in policy ? policy.capacity : policy.limit;
  return {
    name: 'default',
    key: 'secret-key',
    policy,
    allowed: retryAfterMs === 0,
    shadow: false,
    reason: retryAfterMs === 0 ? 'ok' : 'limited',
    source: 'store',
    cost: 1,
    limit,
    remaining: retryAfterMs === 0 ? limit - 1 : 0,
    nextAfterMs: 50_000,
    resetAfterMs: 50_000,
    retryAfterMs,
    ...fields,
  };
}

/** A decision as a store could give it, made by hand. */
export function decide(verdicts: readonly Verdict[], atMs: number = NOW): Decision {
  const admitted = verdicts.every(({ allowed, shadow }) => allowed || shadow);
  return new Decision({ admitted, verdicts, at: Math.round(atMs * 1_000), delay: 0 }, []);
}

export function headers(
  decisions: readonly Decision[],
  forms: readonly HeaderForm[] = DEFAULT_FORMS,
  concurrencyRetryAfter?: number,
): Record<string, string> {
  const fields: Record<string, string> = {};
  const set = (name: string, value: string): void => void (fields[name] = value);
  rateLimitHeaders(decisions, forms, { set }, { concurrencyRetryAfter });
  return fields;
}
