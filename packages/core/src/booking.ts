import type { Receipt, Rule } from './algorithm.ts';
import type { BanRule } from './ban.ts';
import { show, TollgateArgumentError } from './errors.ts';
import type { LeaseRule, Leasing } from './lease.ts';
import { allDone, type MaybePromise } from './maybe-promise.ts';
import type { Charge, Correction, Store } from './store.ts';

/** How a limit answers when its store cannot be asked. */
export type WhenStoreFails =
  | 'local'
  | 'allow'
  | 'deny'
  | { readonly local: { readonly share: number } };

/** Where charges were booked, and what is done about them later. No call rejects because of the store. */
export interface Ledger {
  /** Whose budgets the charges are of. In an outage they are booked elsewhere. */
  readonly store: Store;
  correct(corrections: readonly Correction[]): MaybePromise<void>;
  release(held: readonly BookedCharge[]): MaybePromise<void>;
}

/** What all charges of a limit have in common. */
export interface Book {
  readonly name: string;
  readonly shadow: boolean;
  readonly ledger: Ledger;
  /** What the limit says when the store cannot be asked. */
  readonly whenStoreFails: WhenStoreFails;
  readonly ban: BanRule | undefined;
  readonly lease: Leasing | undefined;
  /** What a policy that a call brings is named by where it is at fault. */
  readonly policyPath: string;
}

/** A charge as a limiter books it. */
export class BookedCharge implements Charge {
  readonly key: string;
  readonly rule: Rule;
  readonly cost: number;
  /** Whether its cost was given by name, by its limit or by a function, and not by one number for all. */
  readonly costNamed: boolean;
  receipt: Receipt | undefined = undefined;
  /** Whether it was settled, or its slot released: only the first time counts. */
  settled = false;
  private readonly book: Book;

  constructor(book: Book, key: string, rule: Rule, cost: number, costNamed: boolean) {
    this.book = book;
    this.key = key;
    this.rule = rule;
    this.cost = cost;
    this.costNamed = costNamed;
  }

  /** The same charge, of another cost, that was not made yet. */
  of(cost: number): BookedCharge {
    return new BookedCharge(this.book, this.key, this.rule, cost, this.costNamed);
  }

  /** The same charge booked in another ledger, by a rule of that one's. */
  at(ledger: Ledger, rule: Rule): BookedCharge {
    const book = { ...this.book, ledger };
    return new BookedCharge(book, this.key, rule, this.cost, this.costNamed);
  }

  /** A charge in the shadow of one unit of what is kept beside this limit's key, under its name with a suffix. */
  beside(suffix: string, rule: Rule): BookedCharge {
    const book = { ...this.book, name: this.name + suffix, shadow: true, ban: undefined };
    return new BookedCharge(book, this.key, rule, 1, false);
  }

  get name(): string {
    return this.book.name;
  }

  get shadow(): boolean {
    return this.book.shadow;
  }

  get ledger(): Ledger {
    return this.book.ledger;
  }

  get whenStoreFails(): WhenStoreFails {
    return this.book.whenStoreFails;
  }

  get ban(): BanRule | undefined {
    return this.book.ban;
  }

  /** @throws TollgateConfigError when the call brought a policy that cannot be leased. */
  get lease(): LeaseRule | undefined {
    return this.book.lease?.of(this.rule, this.book.policyPath);
  }
}

/** Carries out corrections, each where its charge was booked. */
export function correct(corrections: readonly Correction[]): MaybePromise<void> {
  for (const { charge } of corrections) (charge as BookedCharge).settled = true;
  return each(corrections, (ledger, own) => ledger.correct(own));
}

/** Calls every ledger with what was booked there. */
export function each<T extends BookedCharge | Correction>(
  items: readonly T[],
  call: (ledger: Ledger, own: readonly T[]) => MaybePromise<void>,
): MaybePromise<void> {
  if (items.length === 0) return undefined;
  const ledgerOf = (item: T): Ledger =>
    'charge' in item ? (item.charge as BookedCharge).ledger : item.ledger;
  const ledgers = [...new Set(items.map(ledgerOf))];
  const calls = ledgers.map((ledger) =>
    call(
      ledger,
      items.filter((item) => ledgerOf(item) === ledger),
    ),
  );
  return allDone(calls);
}

/** A cost that can be charged: a whole number of 0 or more. `what` names it, or the limit it is for. */
export function checkCost(value: unknown, what: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new TollgateArgumentError(
    `${what}: a cost must be a whole number of 0 or more, got ${show(value)}`,
  );
}
