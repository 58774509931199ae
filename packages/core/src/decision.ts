import { type BookedCharge, checkCost, correct, each } from './booking.ts';
import { show, TollgateArgumentError } from './errors.ts';
import { allDone, type MaybePromise } from './maybe-promise.ts';
import type { Answer, Correction, Store } from './store.ts';
import { bindingOf, gravest, type Reason, type Source, vaguest, type Verdict } from './verdict.ts';

/**
 * What all limits of a request say together. Units are costs, durations milliseconds.
 *
 * Its fields are worked out when they are read: most callers read one or two.
 */
export class Decision {
  readonly #answer: Answer;
  readonly #charges: readonly BookedCharge[];
  #binding: Verdict | undefined;
  #settled = false;

  static {
    // Shows the fields where a decision is logged or printed.
    Object.defineProperty(this.prototype, Symbol.for('nodejs.util.inspect.custom'), {
      value(this: Decision): DecisionData {
        return this.toJSON();
      },
    });
  }

  constructor(answer: Answer, charges: readonly BookedCharge[]) {
    this.#answer = answer;
    this.#charges = charges;
  }

  get allowed(): boolean {
    return this.#answer.admitted;
  }

  get reason(): Reason {
    return this.#answer.admitted ? 'ok' : gravest(this.#answer.verdicts);
  }

  /** One per limit that applied, in the limits' order. */
  get verdicts(): readonly Verdict[] {
    return this.#answer.verdicts;
  }

  /**
   * What the client should pace itself by: when refused the refusing verdict with the longest wait, else the one with
   * the least remaining share.
   */
  get binding(): Verdict | undefined {
    return (this.#binding ??= bindingOf(this.#answer.verdicts));
  }

  /** The binding verdict's quota; Infinity without one. */
  get limit(): number {
    return this.binding?.limit ?? Infinity;
  }

  /** The binding verdict's remaining; Infinity without one. */
  get remaining(): number {
    return this.binding?.remaining ?? Infinity;
  }

  /** The binding verdict's reset; 0 without one. */
  get resetAfterMs(): number {
    return this.binding?.resetAfterMs ?? 0;
  }

  /** Until the same request is admitted: the longest wait of those that refuse, 0 when allowed, Infinity for never. */
  get retryAfterMs(): number {
    return this.#answer.admitted ? 0 : (this.binding?.retryAfterMs ?? 0);
  }

  /** How long to hold an admitted request before serving it. */
  get delayMs(): number {
    return this.#answer.admitted ? this.#answer.delay / 1_000 : 0;
  }

  /** The store's time of the decision, in milliseconds since the epoch. */
  get atMs(): number {
    return this.#answer.at / 1_000;
  }

  /** Where the least exact of the verdicts came from. */
  get source(): Source {
    return vaguest(this.#answer.verdicts);
  }

  /** Whether the store failed, so that a limit was decided or left out without it. For metrics. */
  get degraded(): boolean {
    return this.#answer.failure !== undefined;
  }

  /** The decision as plain data. */
  toJSON(): DecisionData {
    const { allowed, reason, verdicts, binding, limit, remaining } = this;
    const { resetAfterMs, retryAfterMs, delayMs, atMs, source } = this;
    return {
      allowed,
      reason,
      verdicts,
      binding,
      limit,
      remaining,
      resetAfterMs,
      retryAfterMs,
      delayMs,
      atMs,
      source,
    };
  }

  /**
   * What two decisions on one request say together. Of a limit that both charged, the second says how it stands, for the
   * cost of both.
   */
  static merge(first: Decision, second: Decision): Decision {
    const later = new Map(second.verdicts.map((verdict) => [verdict.name, verdict]));
    const verdicts = first.verdicts.map((verdict) => {
      const { name, cost } = verdict;
      const again = second.#shares(first, name) ? later.get(name) : undefined;
      if (again === undefined) return verdict;
      later.delete(name);
      return { ...again, cost: cost + again.cost };
    });
    return new Decision(
      {
        admitted: first.allowed && second.allowed,
        verdicts: [...verdicts, ...later.values()],
        at: second.#answer.at,
        delay: Math.max(first.#answer.delay, second.#answer.delay),
        failure: first.#answer.failure ?? second.#answer.failure,
      },
      [...first.#charges, ...second.#charges],
    );
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
    const settlement = this.#settlement(actual);
    if (this.#settled || !this.allowed) return undefined;
    this.#settled = true;
    return correct(settlement.flatMap(([name, units]) => this.#corrections(name, units)));
  }

  /** Frees the concurrency slots that the request holds. May be called again. */
  release(): MaybePromise<void> {
    const held = this.slots();
    for (const charge of held) charge.settled = true;
    return each(held, (ledger, charges) => ledger.release(charges));
  }

  /** Settles everything to 0 and frees the slots: the request was not served after all. */
  cancel(): MaybePromise<void> {
    this.#settled = true;
    const corrections = this.#charges
      .filter(({ rule, settled, receipt }) => receipt !== undefined && !settled && !rule.holdsSlots)
      .map((charge) => ({ charge, units: -charge.cost }));
    return allDone([correct(corrections), this.release()]);
  }

  /**
   * The same decision after `cancel`, when what it charged is available again. `refuse` changes the verdicts that refuse
   * after all.
   */
  undone(refuse: (verdict: Verdict) => Partial<Verdict> = () => ({})): Decision {
    const { admitted, at, failure } = this.#answer;
    const verdicts = this.#answer.verdicts.map((verdict): Verdict => {
      const { remaining, cost, limit } = verdict;
      const back = admitted && verdict.allowed ? Math.min(limit, remaining + cost) : remaining;
      return { ...verdict, remaining: back, ...refuse(verdict) };
    });
    const allowed = verdicts.every((verdict) => verdict.allowed || verdict.shadow);
    return new Decision({ admitted: allowed, verdicts, at, delay: 0, failure }, this.#charges);
  }

  /** Its charges as they were booked, which in an outage are not those that the store was asked for. */
  charges(): readonly BookedCharge[] {
    return this.#charges;
  }

  /** The charges that hold a slot still. */
  slots(): readonly BookedCharge[] {
    return this.#charges.filter(
      ({ rule, settled, receipt }) => rule.holdsSlots && !settled && receipt !== undefined,
    );
  }

  /** The same decision without the verdicts that `tells` leaves out. */
  telling(tells: (verdict: Verdict) => boolean): Decision {
    const { admitted, verdicts, at, delay, failure } = this.#answer;
    const told = verdicts.filter(tells);
    return new Decision({ admitted, verdicts: told, at, delay, failure }, this.#charges);
  }

  /** The same decision once its delay is over. It takes the place of this one. */
  served(): Decision {
    const { admitted, verdicts, at, failure } = this.#answer;
    return new Decision({ admitted, verdicts, at, delay: 0, failure }, this.#charges);
  }

  /** Whether both decisions charged a limit of one name on one store. */
  #shares(other: Decision, name: string): boolean {
    const storeOf = (charges: readonly BookedCharge[]): Store | undefined =>
      charges.find((charge) => charge.name === name)?.ledger.store;
    const store = storeOf(this.#charges);
    return store !== undefined && store === storeOf(other.#charges);
  }

  /** Which limits a settlement means, and the units it says. */
  #settlement(actual: unknown): [name: string, units: number][] {
    const charged = this.#charges.filter(({ rule }) => !rule.holdsSlots);
    const names = [...new Set(charged.map(({ name }) => name))];
    if (typeof actual === 'object' && actual !== null) {
      const entries = Object.entries(actual);
      for (const [name, units] of entries) {
        checkCost(units, `settle: ${name}`);
        if (names.includes(name)) continue;
        throw new TollgateArgumentError(
          `settle: no charge of ${show(name)} can be settled; there are ${list(names)}.`,
        );
      }
      if (entries.length > 0) return entries as [string, number][];
      throw new TollgateArgumentError('settle({}) names no limit; the reservation stays.');
    }
    const units = checkCost(actual, 'settle');
    if (names.length === 0) return [];
    const meant =
      names.length === 1
        ? names
        : [...new Set(charged.filter(({ costNamed }) => costNamed).map(({ name }) => name))];
    const [only] = meant;
    if (only !== undefined && meant.length === 1) return [[only, units]];
    throw new TollgateArgumentError(
      `settle(${units}) could mean ${list(names)}; write settle({ name: ${units} }).`,
    );
  }

  /** What brings the charges of a limit, of which a request may have made several, to `units` in all. */
  #corrections(name: string, units: number): Correction[] {
    // What took nothing, in a peek or in the shadow, leaves nothing to correct.
    const charges = this.#charges.filter(
      ({ name: own, cost, settled, receipt }) =>
        own === name && !settled && (receipt !== undefined || cost === 0),
    );
    let excess = charges.reduce((sum, { cost }) => sum + cost, -units);
    const corrections: Correction[] = [];
    const [first] = charges;
    if (first !== undefined && excess < 0) corrections.push({ charge: first, units: -excess });
    for (let i = charges.length - 1; i >= 0 && excess > 0; i--) {
      const charge = charges[i] as BookedCharge;
      const back = Math.min(excess, charge.cost);
      if (back > 0) corrections.push({ charge, units: -back });
      excess -= back;
    }
    for (const charge of charges) charge.settled = true;
    return corrections;
  }
}

/** A decision's fields as plain data. */
export type DecisionData = Pick<
  Decision,
  | 'allowed'
  | 'reason'
  | 'verdicts'
  | 'binding'
  | 'limit'
  | 'remaining'
  | 'resetAfterMs'
  | 'retryAfterMs'
  | 'delayMs'
  | 'atMs'
  | 'source'
>;

function list(names: readonly string[]): string {
  return names.length === 0 ? 'none' : names.join(', ');
}
