import type { Receipt, Rule } from './algorithm.ts';
import type { BanRule } from './ban.ts';
import type { LeaseRule, Leasing } from './lease.ts';
import type { Verdict } from './verdict.ts';
import type { MaybePromise } from './maybe-promise.ts';
import type { RefusedKey, Tally } from './refusals/refused-key.ts';

/**
 * One limit's key, policy and cost, as handed to a store. Some of its fields are getters, which `{ ...charge }` leaves
 * out.
 */
export interface Charge {
  /** The limit's name: the namespace of its keys. */
  readonly name: string;
  readonly key: string;
  readonly rule: Rule;
  /** Units, a whole number of 0 or more. */
  readonly cost: number;
  /** Charged only when the request is admitted, and never a reason to refuse it. */
  readonly shadow: boolean;
  /** By which refusals of the key ban it. */
  readonly ban?: BanRule | undefined;
  /** How units of the key are taken ahead of time. The store charges by its rule. */
  readonly lease?: LeaseRule | undefined;
  /** What the charge left behind, set by the store that charged it; undefined while nothing was. */
  receipt: Receipt | undefined;
}

/**
 * - consume: all charges or none
 * - attempt: the same, but a refusal does not count towards a ban, since the caller waits and asks again
 * - peek: the same answer, nothing charged
 * - charge: unconditional, into debt where the algorithm knows debt
 */
export type Mode = 'consume' | 'attempt' | 'peek' | 'charge';

/** What a store answers. */
export interface Answer {
  /** Whether every charge that is not shadow was admitted. */
  readonly admitted: boolean;
  /** One per charge, in their order. May be worked out when first read. */
  readonly verdicts: readonly Verdict[];
  /** The store's time, in integer microseconds since the epoch. */
  readonly at: number;
  /** How long to hold an admitted request, in microseconds. */
  readonly delay: number;
  /** Whether every key has units left, where that is known without the verdicts. */
  readonly spare?: boolean;
  /**
   * What went wrong beside, though the answer stands: such as units that could not be given back. A limit that could
   * not be asked for that reason has no verdict.
   */
  readonly failure?: unknown;
}

/** How a store is. */
export interface Health {
  readonly store: 'up' | 'down' | 'probing';
  /** Since when it is up, or is not, in milliseconds since the epoch. */
  readonly since: number;
  readonly lastError: unknown;
}

/** A change to what a charge left behind: units given back (negative) or charged on top (positive). */
export interface Correction {
  readonly charge: Charge;
  readonly units: number;
}

/**
 * Where state lives and charges are made atomically. A store knows how to apply a rule to what it remembers of a key
 * (read the state, roll, ask, add, write), and no algorithm by name.
 *
 * A store that answers with values, not promises, gives a limiter that answers synchronously.
 */
export interface Store<Async extends boolean = boolean> {
  /** Whether calls answer with promises. */
  readonly async: Async;
  /** What events and metrics call it; for Redis its prefix. */
  readonly name?: string;
  /** Decides all charges as one, and notes their receipts; nothing is kept of any when one that is not shadow refuses. */
  decide(charges: readonly Charge[], mode: Mode): Answered<Async, Answer>;
  /** Answers from leases that are held here, without asking; undefined where the store has to be asked. */
  decideAtOnce?(charges: readonly Charge[], mode: Mode): Answer | undefined;
  /** Gives back what is unspent of these limits' leases. A store without it knows no leases. */
  returnLeases?(limits: readonly Leasing[]): Answered<Async, void>;
  /** Settles: each correction takes or adds units of one charge. */
  correct(corrections: readonly Correction[]): Answered<Async, void>;
  /** Takes units off what the keys owe, never below nothing; creates no key. */
  refund(charges: readonly Charge[]): Answered<Async, void>;
  /** Renews the slots that charges hold for another slot timeout. Returns which are still held. */
  renew(charges: readonly Charge[]): Answered<Async, boolean[]>;
  /** Refuses keys for `length` µs from now on. A store without it, and without `unban`, knows no bans. */
  ban?(keys: readonly Pick<Charge, 'name' | 'key'>[], length: number): Answered<Async, void>;
  /** Ends bans, and forgets the refusals that were counted. */
  unban?(keys: readonly Pick<Charge, 'name' | 'key'>[]): Answered<Async, void>;
  /** Forgets keys, their bans included. */
  reset(keys: readonly Pick<Charge, 'name' | 'key'>[]): Answered<Async, void>;
  /**
   * Adds what a process refused to what all processes did, kept for a day in bounded space. Called in the background, at
   * most once in some seconds, and never again with the same counts: what fails is lost. A store without it, and without
   * `mostRefused`, keeps no list of the fleet's.
   */
  tally?(refusals: readonly Tally[]): Answered<Async, void>;
  /**
   * The keys that all processes refused most, of these limits or of all that are known: at most `count` of each, the most
   * refused first, of the last `hours`.
   */
  mostRefused?(
    names: readonly string[] | undefined,
    count: number,
    hours: number,
  ): Answered<Async, readonly RefusedKey[]>;
  /** How the store is; a store without it is always up. */
  health?(): Health;
  /** Frees what the store itself opened. Called when the last limiter on the store closes. */
  close(): MaybePromise<void>;
}

export type Answered<Async extends boolean, T> = Async extends true ? Promise<T> : T;
