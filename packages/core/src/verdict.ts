import type { Policy } from './policy.ts';
import type { Charge } from './store.ts';

/** Why a request was admitted or refused; the gravest of its verdicts' reasons. */
export type Reason = 'ok' | 'limited' | 'overloaded' | 'banned' | 'denied' | 'store-unavailable';

/** Where an answer came from, from the most exact to the least. */
export type Source = 'store' | 'lease' | 'fallback' | 'none';

const GRAVITY: Readonly<Record<Reason, number>> = {
  ok: 0,
  limited: 1,
  overloaded: 2,
  banned: 3,
  denied: 4,
  'store-unavailable': 5,
};

const VAGUENESS: Readonly<Record<Source, number>> = { store: 0, lease: 1, fallback: 2, none: 3 };

/** What one limit says of one request. Units are costs, durations milliseconds. */
export interface Verdict {
  readonly name: string;
  readonly key: string;
  readonly policy: Policy;
  readonly allowed: boolean;
  /** Reported only: never refuses, delays or shows in headers. */
  readonly shadow: boolean;
  readonly reason: Reason;
  readonly source: Source;
  readonly cost: number;
  /** The quota: capacity or limit, in units. */
  readonly limit: number;
  /** The largest cost that would be admitted now: after this charge, or before it where nothing was charged. */
  readonly remaining: number;
  /** Until one more unit is available than now; 0 when whole. */
  readonly nextAfterMs: number;
  /** Until the key is whole, as if never seen, if nothing more is charged; 0 when whole. */
  readonly resetAfterMs: number;
  /** Until this same cost is admitted: 0 when allowed, Infinity for never. */
  readonly retryAfterMs: number;
}

/** A key's numbers after a decision: units, and durations in microseconds. */
export interface Standing {
  readonly wait: number;
  readonly remaining: number;
  readonly nextAfter: number;
  readonly resetAfter: number;
}

/** What a store says of a charge, whose key is banned for `banned` µs more. */
export function verdictOf(
  { name, key, rule, shadow, cost }: Charge,
  { wait, remaining, nextAfter, resetAfter }: Standing,
  banned: number,
): Verdict {
  const allowed = wait === 0;
  const verdict: Verdict = {
    name,
    key,
    policy: rule.policy,
    allowed,
    shadow,
    reason: allowed ? 'ok' : rule.refusal,
    source: 'store',
    cost,
    limit: rule.quota,
    remaining,
    nextAfterMs: nextAfter / 1_000,
    resetAfterMs: resetAfter / 1_000,
    retryAfterMs: wait / 1_000,
  };
  return banned === 0 ? verdict : whileBanned(verdict, banned);
}

/** What a verdict says while its key is banned for `left` µs more. */
function whileBanned(says: Verdict, left: number): Verdict {
  const leftMs = left / 1_000;
  const nextAfterMs = Math.max(leftMs, says.remaining > 0 ? 0 : says.nextAfterMs);
  return {
    ...says,
    allowed: false,
    reason: 'banned',
    remaining: 0,
    nextAfterMs,
    resetAfterMs: Math.max(leftMs, says.resetAfterMs),
    retryAfterMs: Math.max(leftMs, says.retryAfterMs),
  };
}

/** The verdict that a client should pace itself by; undefined where none may be shown. */
export function bindingOf(verdicts: readonly Verdict[]): Verdict | undefined {
  let binding: Verdict | undefined;
  for (let i = 0; i < verdicts.length; i++) {
    const verdict = verdicts[i] as Verdict;
    if (!verdict.shadow && (binding === undefined || paces(verdict, binding))) binding = verdict;
  }
  return binding;
}

/**
 * Whether a client should pace itself by `verdict` rather than by `other`: by one that refuses first, of those by the
 * longer wait, else by the lesser share.
 */
export function paces(verdict: Verdict, other: Verdict): boolean {
  if (verdict.allowed !== other.allowed) return other.allowed;
  if (!verdict.allowed) return verdict.retryAfterMs > other.retryAfterMs;
  const less = share(verdict) - share(other);
  return less < 0 || (less === 0 && verdict.resetAfterMs > other.resetAfterMs);
}

/** What is left of a verdict's quota, from 0 to 1. */
function share({ remaining, limit }: Verdict): number {
  return limit === 0 ? 0 : remaining / limit;
}

/** The gravest of the reasons of those that may refuse. */
export function gravest(verdicts: readonly Verdict[]): Reason {
  let reason: Reason = 'ok';
  for (const verdict of verdicts) if (!verdict.shadow) reason = graver(reason, verdict.reason);
  return reason;
}

/** The graver of two reasons. */
export function graver(one: Reason, other: Reason): Reason {
  return GRAVITY[other] > GRAVITY[one] ? other : one;
}

/** The least exact source; none where there is no verdict. */
export function vaguest(verdicts: readonly Verdict[]): Source {
  const [first] = verdicts;
  if (first === undefined) return 'none';
  let { source } = first;
  for (let i = 1; i < verdicts.length; i++) {
    const other = (verdicts[i] as Verdict).source;
    if (VAGUENESS[other] > VAGUENESS[source]) source = other;
  }
  return source;
}
