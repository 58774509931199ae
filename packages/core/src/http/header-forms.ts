import type { Verdict } from '../verdict.ts';
import { fixedWindow, type Policy } from '../policy.ts';
import { decimal } from './decimal.ts';

/**
 * A way to write verdicts into a response. The drafts are revisions of draft-ietf-httpapi-ratelimit-headers; -08 to
 * -11 share one syntax. None of them is an RFC.
 */
export type HeaderForm = 'x-ratelimit' | 'draft-6' | 'draft-7' | 'draft-11';

/** The head of a response, which is not written yet. */
export interface ResponseHead {
  /** Sets a field. */
  set(name: string, value: string): void;
}

/** What a response says of its limits. */
export interface Shown {
  readonly verdicts: readonly Verdict[];
  /** What the forms that can show only one verdict show. */
  readonly binding: Verdict | undefined;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** Whether RateLimit-Policy is draft-11's: one List cannot hold its Strings and the Integers of -06 and -07. */
  readonly named: boolean;
}

export interface Form {
  readonly names: readonly string[];
  readonly emit: (shown: Shown, head: ResponseHead) => void;
}

/** What of a policy's texts never changes. */
interface PolicyTexts {
  /** Whole units, at most `MOST`. */
  readonly quota: number;
  /** Seconds, at least 1; 0 for a concurrency limit, which has no window. */
  readonly window: number;
  readonly plain: string;
  readonly byName: Map<string, string>;
}

/** Stands in a refusal that came before the request's own policy was known. No field tells of it. */
export const UNKNOWN_POLICY: Policy = fixedWindow({ limit: 0, window: '1s' });

/** The largest Integer of a structured field (RFC 9651 §3.3.1). */
const MOST = 999_999_999_999_999;

const texts = new WeakMap<Policy, PolicyTexts>();

function whole(units: number): number {
  return units > 0 ? Math.min(Math.floor(units), MOST) : 0;
}

/** Whole seconds, never early: rounded up and at least 1, since 0 would have a refused client return at once. */
export function seconds(ms: number): number {
  return ms > 1_000 ? Math.min(Math.ceil(ms / 1_000), MOST) : 1;
}

/** Seconds in which a full quota is given out: for a bucket the time it takes to fill, so that q/w is its true rate. */
function windowOf(policy: Policy): number {
  if (policy.algorithm === 'concurrency') return 0;
  if ('window' in policy) return seconds(policy.window);
  const perSecond = BigInt(policy.rate) * 1_000_000n;
  const filling = BigInt(policy.capacity) * BigInt(Math.round(policy.per * 1_000));
  return seconds(Number((filling + perSecond - 1n) / perSecond) * 1_000);
}

function textsOf(policy: Policy): PolicyTexts {
  const known = texts.get(policy);
  if (known !== undefined) return known;
  const quota = whole('capacity' in policy ? policy.capacity : policy.limit);
  const window = windowOf(policy);
  const made = { quota, window, plain: `${quota};w=${window}`, byName: new Map<string, string>() };
  texts.set(policy, made);
  return made;
}

/** An item of draft-11's RateLimit-Policy (§3). */
function policyItem({ name, policy }: Verdict): string {
  const { quota, window, byName } = textsOf(policy);
  let item = byName.get(name);
  if (item === undefined) {
    item = `"${name}";q=${quota}${window === 0 ? ';qu="concurrent-requests"' : `;w=${window}`}`;
    byName.set(name, item);
  }
  return item;
}

/** Whether a verdict's numbers were counted. Where no store was asked there are none, and none are invented. */
export function isCounted({ source, reason }: Verdict): boolean {
  return source !== 'none' && reason !== 'store-unavailable' && reason !== 'denied';
}

/** Whether the forms that know only quotas per window can show a verdict. */
export function isWindowed(verdict: Verdict): boolean {
  return verdict.policy.algorithm !== 'concurrency' && isCounted(verdict);
}

/**
 * What the forms with one reset count down to, in milliseconds: the quota's reset or, so that it is the moment of
 * Retry-After (draft-06 §4), the wait. They need a number even where no wait helps: then no less than a window.
 */
function countdown({ allowed, policy, resetAfterMs, retryAfterMs }: Verdict): number {
  if (allowed) return resetAfterMs;
  if (retryAfterMs !== Infinity) return retryAfterMs;
  return Math.max(resetAfterMs, textsOf(policy).window * 1_000);
}

/** GitHub's names and encoding: the reset is in seconds since the epoch. Rounded up as a sum, not in its parts. */
function emitXRateLimit({ binding, atMs }: Shown, head: ResponseHead): void {
  if (binding === undefined) return;
  const resetMs = atMs + Math.max(binding.resetAfterMs, countdown(binding));
  head.set('X-RateLimit-Limit', decimal(whole(binding.limit)));
  head.set('X-RateLimit-Remaining', decimal(whole(binding.remaining)));
  head.set('X-RateLimit-Reset', decimal(whole(Math.ceil(resetMs / 1_000))));
}

/** Draft-06 §4: three Items; the policies beside them. */
function emitDraft6(shown: Shown, head: ResponseHead): void {
  const { binding } = shown;
  if (binding === undefined) return;
  head.set('RateLimit-Limit', decimal(whole(binding.limit)));
  head.set('RateLimit-Remaining', decimal(whole(binding.remaining)));
  head.set('RateLimit-Reset', decimal(seconds(countdown(binding))));
  if (!shown.named) head.set('RateLimit-Policy', plainPolicies(shown.verdicts));
}

/** Draft-07: the same three as one Dictionary. */
function emitDraft7({ binding, verdicts }: Shown, head: ResponseHead): void {
  if (binding === undefined) return;
  const limit = decimal(whole(binding.limit));
  const remaining = decimal(whole(binding.remaining));
  const reset = decimal(seconds(countdown(binding)));
  head.set('RateLimit', `limit=${limit}, remaining=${remaining}, reset=${reset}`);
  head.set('RateLimit-Policy', plainPolicies(verdicts));
}

/** Draft-11 §3 and §4: Lists with an item per limit. `t` is left out where nothing more is to come, or nobody knows when. */
function emitDraft11({ verdicts }: Shown, head: ResponseHead): void {
  let limits = '';
  let policies = '';
  for (const verdict of verdicts) {
    if (verdict.policy === UNKNOWN_POLICY) continue;
    const item = policyItem(verdict);
    policies = policies === '' ? item : `${policies}, ${item}`;
    if (!isCounted(verdict)) continue;
    if (limits !== '') limits += ', ';
    limits += `"${verdict.name}";r=${decimal(whole(verdict.remaining))}`;
    const next = verdict.nextAfterMs;
    if (next !== 0 && next !== Infinity && verdict.policy.algorithm !== 'concurrency') {
      limits += `;t=${decimal(seconds(next))}`;
    }
  }
  if (limits !== '') head.set('RateLimit', limits);
  if (policies !== '') head.set('RateLimit-Policy', policies);
}

/** RateLimit-Policy up to -07. Of policies with one quota only the longest window's: they must differ (draft-06 §3.2). */
function plainPolicies(verdicts: readonly Verdict[]): string {
  const [first] = verdicts;
  if (first !== undefined && verdicts.length === 1) return textsOf(first.policy).plain;
  const policies: PolicyTexts[] = [];
  for (const verdict of verdicts) {
    if (!isWindowed(verdict)) continue;
    const policy = textsOf(verdict.policy);
    const same = policies.findIndex(({ quota }) => quota === policy.quota);
    if (same === -1) policies.push(policy);
    else if (policy.window > (policies[same]?.window ?? 0)) policies[same] = policy;
  }
  return policies.map(({ plain }) => plain).join(', ');
}

export const FORMS: Readonly<Record<HeaderForm, Form>> = {
  'x-ratelimit': {
    names: ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
    emit: emitXRateLimit,
  },
  'draft-6': {
    names: ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'RateLimit-Policy'],
    emit: emitDraft6,
  },
  'draft-7': { names: ['RateLimit', 'RateLimit-Policy'], emit: emitDraft7 },
  'draft-11': { names: ['RateLimit', 'RateLimit-Policy'], emit: emitDraft11 },
};
