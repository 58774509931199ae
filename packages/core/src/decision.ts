import type { Receipt } from './algorithm.ts';
import { show, TollgateArgumentError } from './errors.ts';
import type { Policy } from './policy.ts';
import type { Answer, Charge, Correction } from './store.ts';

/** Why a request was admitted or refused; the gravest of its verdicts' reasons. */
export type Reason =
  | 'ok'
  | 'limited'
  | 'overloaded'
  | 'banned'
  | 'denied'
  | 'store-unavailable';

/** Where an answer came from, from the most exact to the least. */
export type Source = 'store' | 'lease' | 'fallback' | 'none';

export type MaybePromise<T> = T | Promise<T>;

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

/** A charge as a limiter books it. */
export interface BookedCharge extends Charge {
  /** Whether its cost was given by name, by its limit or by a function, and not by one number for all. */
  readonly costNamed: boolean;
}

/** Carries out what a decision asks for after it was made. Neither call rejects because of the store. */
export interface Ledger {
  correct(corrections: readonly Correction[]): MaybePromise<void>;
  release(held: readonly Correction[]): MaybePromise<void>;
}

/** Whether a refusing verdict's wait (or a healthy one's remaining share) paces the client more than another's. */
function paces(verdict: Verdict, other: Verdict | undefined, refused: boolean): boolean {
  if (other === undefined) return true;
  if (refused) return verdict.retryAfterMs > other.retryAfterMs;
  const less = share(verdict) - share(other);
  return less < 0 || (less === 0 && verdict.resetAfterMs > other.resetAfterMs);
}

/** What is left of a verdict's quota, from 0 to 1. */
export function share({ remaining, limit }: Verdict): number {
  return limit === 0 ? 0 : remaining / limit;
}

/** What all limits of a request say together. Units are costs, durations milliseconds. */
export class Decision {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** One per limit that applied, in the limits' order. */
  readonly verdicts: readonly Verdict[];
  /** What the client should pace itself by: the refusing verdict with the longest wait, else the least remaining share. */
  readonly binding: Verdict | undefined;
  /** The binding verdict's quota; Infinity without one. */
  readonly limit: number;
  /** The binding verdict's remaining; Infinity without one. */
  readonly remaining: number;
  /** The binding verdict's reset; 0 without one. */
  readonly resetAfterMs: number;
  /** Until the same request is admitted: the longest wait of the refusing verdicts, 0 when allowed, Infinity for never. */
  readonly retryAfterMs: number;
  /** How long to hold an admitted request before serving it. */
  readonly delayMs: number;
  /** The store's time of the decision, in milliseconds since the epoch. */
  readonly atMs: number;
  /** Where the least exact of the verdicts came from. */
  readonly source: Source;
  readonly #ledger: Ledger;
  readonly #charges: readonly BookedCharge[];
  readonly #answer: Answer;
  #settled = false;
  #released = false;

  constructor(answer: Answer, charges: readonly BookedCharge[], ledger: Ledger) {
    const { verdicts } = answer;
    let reason: Reason = 'ok';
    let source: Source = verdicts.length === 0 ? 'none' : 'store';
    let binding: Verdict | undefined;
    for (const verdict of verdicts) {
      if (VAGUENESS[verdict.source] > VAGUENESS[source]) source = verdict.source;
      if (verdict.shadow) continue;
      if (!verdict.allowed && reason === 'ok') binding = undefined;
      if (GRAVITY[verdict.reason] > GRAVITY[reason]) reason = verdict.reason;
      if (verdict.allowed && reason !== 'ok') continue;
      if (paces(verdict, binding, !verdict.allowed)) binding = verdict;
    }
    this.allowed = reason === 'ok';
    this.reason = reason;
    this.verdicts = verdicts;
    this.binding = binding;
    this.limit = binding === undefined ? Infinity : binding.limit;
    this.remaining = binding === undefined ? Infinity : binding.remaining;
    this.resetAfterMs = binding === undefined ? 0 : binding.resetAfterMs;
    this.retryAfterMs = binding === undefined ? 0 : binding.retryAfterMs;
    this.delayMs = this.allowed ? answer.delay / 1_000 : 0;
    this.atMs = answer.at / 1_000;
    this.source = source;
    this.#ledger = ledger;
    this.#charges = charges;
    this.#answer = answer;
  }

  /**
   * Corrects the charge once the true cost is known: gives back the excess, or charges the difference even into debt.
   * The first call wins. A number goes to the one charged limit that is not concurrency; with several, to the one
   * whose cost was given by name, by its limit or by a function.
   *
   * @throws TollgateArgumentError for a value that is not a whole number of 0 or more, or one that could go to several
   * limits; the reservation stays.
   */
  settle(actual: number | Readonly<Record<string, number>>): MaybePromise<void> {
    const corrections: Correction[] = [];
    for (const [charge, units] of this.#settlement(actual)) {
      const receipt = this.#receipt(charge);
      if (units !== charge.cost) {
        corrections.push({ charge, receipt: receipt ?? [], units: units - charge.cost });
      }
    }
    if (this.#settled || !this.allowed) return undefined;
    this.#settled = true;
    return corrections.length === 0 ? undefined : this.#ledger.correct(corrections);
  }

  /** Frees the concurrency slots that the request holds. May be called again. */
  release(): MaybePromise<void> {
    if (this.#released) return undefined;
    this.#released = true;
    const held = Decision.slots(this);
    return held.length === 0 ? undefined : this.#ledger.release(held);
  }

  /** Gives the whole charge back, slots excepted. */
  cancel(): MaybePromise<void> {
    if (this.#settled || !this.allowed) return undefined;
    this.#settled = true;
    const corrections = this.#charges.flatMap((charge): Correction[] => {
      const receipt = charge.rule.holdsSlots ? undefined : this.#receipt(charge);
      return receipt === undefined ? [] : [{ charge, receipt, units: -charge.cost }];
    });
    return corrections.length === 0 ? undefined : this.#ledger.correct(corrections);
  }

  /** The same decision once its delay is over. It takes the place of this one. */
  served(): Decision {
    return new Decision({ ...this.#answer, delay: 0 }, this.#charges, this.#ledger);
  }

  /** The slots that a decision holds, as the limiter renews them. */
  static slots(decision: Decision): Correction[] {
    const held: Correction[] = [];
    for (const charge of decision.#charges) {
      const receipt = charge.rule.holdsSlots ? decision.#receipt(charge) : undefined;
      if (receipt !== undefined) held.push({ charge, receipt, units: -1 });
    }
    return held;
  }

  #receipt(charge: BookedCharge): Receipt | undefined {
    return this.#answer.receipts[this.#charges.indexOf(charge)];
  }

  /** Which charge a settlement means, and the units it says. */
  #settlement(actual: unknown): [BookedCharge, number][] {
    const charged = this.#charges.filter(({ rule }) => !rule.holdsSlots);
    if (typeof actual === 'object' && actual !== null) {
      const entries = Object.entries(actual);
      if (entries.length === 0) {
        throw new TollgateArgumentError('settle({}) names no limit; the reservation stays.');
      }
      return entries.map(([name, units]) => {
        const charge = charged.find((candidate) => candidate.name === name);
        if (charge === undefined) {
          throw new TollgateArgumentError(
            `settle: no charge of ${show(name)} can be settled; there are ${namesOf(charged)}.`,
          );
        }
        return [charge, checkCost(units, `settle: the actual cost of ${name}`)];
      });
    }
    const units = checkCost(actual, 'settle: the actual cost');
    const named = charged.filter(({ costNamed }) => costNamed);
    const [charge, ...others] = charged.length > 1 ? named : charged;
    if (charge === undefined && charged.length === 0) return [];
    if (charge === undefined || others.length > 0) {
      throw new TollgateArgumentError(
        `settle(${units}) could mean ${namesOf(charged)}; write settle({ name: ${units} }).`,
      );
    }
    return [[charge, units]];
  }
}

function namesOf(charges: readonly BookedCharge[]): string {
  return charges.length === 0 ? 'none' : charges.map(({ name }) => name).join(', ');
}

/** A cost that can be charged: a whole number of 0 or more. */
export function checkCost(value: unknown, what: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new TollgateArgumentError(
    `${what} must be a whole number of 0 or more, got ${show(value)}`,
  );
}
