import type { Decision } from '../decision.ts';
import { paces, type Verdict } from '../verdict.ts';
import { show, TollgateConfigError } from '../errors.ts';
import { decimal } from './decimal.ts';
import {
  FORMS,
  type HeaderForm,
  isCounted,
  isWindowed,
  type ResponseHead,
  seconds,
} from './header-forms.ts';

export type { HeaderForm, ResponseHead };

export const DEFAULT_FORMS: readonly HeaderForm[] = Object.freeze(['draft-6', 'draft-11']);

export interface HeaderOptions {
  /** Seconds to wait after a concurrency limit's refusal, whose end nobody can know; default 1. */
  readonly concurrencyRetryAfter?: number | undefined;
}

/**
 * The verdicts that a client may see, in order. A name that came up twice, as when a route costs more than its gate,
 * is told once: by the verdict that asks for more patience.
 */
function visible(decisions: readonly Decision[]): readonly Verdict[] {
  const only = decisions.length === 1 ? decisions[0]?.verdicts : undefined;
  if (only !== undefined && !anyIs(only, 'shadow', true)) return only;
  const byName = new Map<string, Verdict>();
  for (const { verdicts } of decisions) {
    for (const verdict of verdicts) {
      if (verdict.shadow) continue;
      const earlier = byName.get(verdict.name);
      if (earlier === undefined || paces(verdict, earlier)) byName.set(verdict.name, verdict);
    }
  }
  return [...byName.values()];
}

/** Whether a flag of any verdict is so. On the path of every request, where some() would make a closure. */
function anyIs(verdicts: readonly Verdict[], flag: 'shadow' | 'allowed', value: boolean): boolean {
  for (const verdict of verdicts) if (verdict[flag] === value) return true;
  return false;
}

/** The verdict to show where there is room for one. None stands in for a refusal that cannot be shown. */
function bindingOf(verdicts: readonly Verdict[], refused: boolean): Verdict | undefined {
  let binding: Verdict | undefined;
  for (const verdict of verdicts) {
    if ((refused && verdict.allowed) || !isWindowed(verdict)) continue;
    if (binding === undefined || paces(verdict, binding)) binding = verdict;
  }
  return binding;
}

/** Revisions that differ from -11 in prose only. */
const SAME_AS_DRAFT_11: ReadonlySet<unknown> = new Set(['draft-8', 'draft-9', 'draft-10']);
const NAMES = Object.keys(FORMS).join(', ');

/**
 * Reads the option `headers`: undefined is the default, false is none.
 *
 * @throws TollgateConfigError for a form that there is not, one given twice, or `draft-7` beside `draft-11`, which
 * write one field in two types.
 */
export function parseForms(value: unknown, path: string): readonly HeaderForm[] {
  if (value === undefined) return DEFAULT_FORMS;
  if (value === false) return [];
  if (!Array.isArray(value)) {
    throw new TollgateConfigError(
      path,
      `expected false or an array of ${NAMES}, got ${show(value)}`,
    );
  }
  const forms: HeaderForm[] = [];
  for (const [index, form] of value.entries()) {
    if (typeof form !== 'string' || !Object.hasOwn(FORMS, form)) {
      const mend = SAME_AS_DRAFT_11.has(form)
        ? 'write "draft-11", which has its syntax'
        : `there are ${NAMES}`;
      throw new TollgateConfigError(`${path}[${index}]`, `unknown form ${show(form)}; ${mend}`);
    }
    if (forms.includes(form as HeaderForm)) {
      throw new TollgateConfigError(`${path}[${index}]`, `${show(form)} is listed twice; drop one`);
    }
    forms.push(form as HeaderForm);
  }
  if (forms.includes('draft-7') && forms.includes('draft-11')) {
    throw new TollgateConfigError(
      path,
      '"draft-7" and "draft-11" write RateLimit in two types; drop one of them',
    );
  }
  return Object.freeze(forms);
}

/**
 * Writes what all decisions of a response say together into its head: the fields of each form, and on a
 * refusal `Cache-Control` and (unless no wait helps) `Retry-After`, whatever the forms. Nothing without a verdict.
 */
export function rateLimitHeaders(
  decisions: readonly Decision[],
  forms: readonly HeaderForm[],
  head: ResponseHead,
  { concurrencyRetryAfter = 1 }: HeaderOptions = {},
): void {
  const verdicts = visible(decisions);
  const refused = anyIs(verdicts, 'allowed', false);
  if (forms.length > 0) {
    let atMs = 0;
    for (const decision of decisions) atMs = Math.max(atMs, decision.atMs);
    const binding = bindingOf(verdicts, refused);
    const shown = { verdicts, binding, atMs, named: forms.includes('draft-11') };
    for (const form of forms) FORMS[form].emit(shown, head);
  }
  if (!refused) return;
  const wait = retryAfter(decisions, concurrencyRetryAfter * 1_000);
  // Delay-seconds rather than a date (RFC 9110 §10.2.3): clocks differ.
  if (wait !== Infinity) head.set('Retry-After', decimal(seconds(wait)));
  head.set('Cache-Control', 'no-store');
}

/** Milliseconds until every refusing verdict would admit, Infinity for never. */
function retryAfter(decisions: readonly Decision[], concurrencyMs: number): number {
  let wait = 0;
  for (const { verdicts } of decisions) {
    for (const { allowed, shadow, reason, policy, retryAfterMs } of verdicts) {
      if (allowed || shadow) continue;
      if (reason === 'denied') return Infinity;
      // A slot may be free long before its timeout, which is what the verdict has to go by.
      const guessed =
        policy.algorithm === 'concurrency' && (reason === 'limited' || reason === 'overloaded');
      wait = Math.max(wait, guessed && retryAfterMs !== Infinity ? concurrencyMs : retryAfterMs);
    }
  }
  return wait;
}

/**
 * Whether a response goes without rate-limit fields: a redirect with nothing remaining, which the client would not
 * dare to follow (draft-11 §6). 304 sends nobody anywhere.
 */
export function suppressed(decisions: readonly Decision[], status: number): boolean {
  if (status < 300 || status > 399 || status === 304) return false;
  return visible(decisions).some((verdict) => isCounted(verdict) && verdict.remaining <= 0);
}

/** The fields that a browser shows to scripts of other origins only when Access-Control-Expose-Headers lists them. */
export function exposedHeaders(forms: readonly HeaderForm[] = DEFAULT_FORMS): string[] {
  return [...new Set([...forms.flatMap((form) => FORMS[form].names), 'Retry-After'])];
}

/** An Access-Control-Expose-Headers with our fields behind the application's own, none listed twice. */
export function mergeExposed(
  existing: string | undefined,
  forms: readonly HeaderForm[] = DEFAULT_FORMS,
): string {
  const byName = new Map<string, string>();
  for (const field of [...(existing ?? '').split(','), ...exposedHeaders(forms)]) {
    const name = field.trim();
    if (name !== '' && !byName.has(name.toLowerCase())) byName.set(name.toLowerCase(), name);
  }
  return [...byName.values()].join(', ');
}
