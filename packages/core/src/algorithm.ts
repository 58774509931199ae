import type { Policy } from './policy.ts';

/**
 * What is remembered of one key under one limit: integers only, in an order that each algorithm names. A key never
 * seen is all zeros (an empty list where an algorithm keeps a list). A rule may change the state it is given; the
 * store decides whether the change is kept.
 */
export type State = number[];

/** What a charge left behind, by which its units can be found again and given back. */
export type Receipt = readonly number[];

/**
 * A policy made ready: an algorithm with its exact integers. Every method is a pure function of these, the state, and
 * `now` in integer microseconds; all but `roll` take a state that was rolled to the same `now`. Durations are integer
 * microseconds.
 *
 * The laws, which the tests hold every rule to:
 * - a cost is admitted exactly from `now + wait` on, and one microsecond earlier it is not;
 * - at `now + resetAfter` the state is as if never seen;
 * - nothing but `add`, `refund` and `giveBack` changes what is owed;
 * - a clock that steps back never frees a unit early, and never locks a key out for more than one window or refill.
 */
export interface Rule {
  readonly policy: Policy;
  /** The capacity or limit, in units. */
  readonly quota: number;
  /** How many numbers a state has; undefined for a list that grows. */
  readonly size: number | undefined;
  /** Whether a charge beyond the quota becomes debt; otherwise it is refused. */
  readonly overdraws: boolean;
  /** Whether a charge holds a slot until it is released. */
  readonly holdsSlots: boolean;
  /** Whether keys have windows of their own, so that `offset` is to be asked. */
  readonly spreads: boolean;
  /** Whether admitted requests wait in line, so that `delay` is to be asked. */
  readonly queues: boolean;
  /** The integers that the Lua twin works with. */
  readonly numbers: readonly number[];
  /** Why this rule refuses. */
  readonly refusal: 'limited' | 'overloaded';

  /** How far a key's windows are ahead of the epoch's, so that not all keys' windows end at one instant. */
  offset(key: string): number;

  /** Brings a state to `now`. Returns true when it healed a clock that stepped back, which a store keeps. */
  roll(state: State, now: number, offset: number): boolean;
  /** How long until `cost` is admitted: 0 for now, Infinity for never. */
  wait(state: State, cost: number, now: number): number;
  /** How long an admitted request is held before it is served; read before the charge. */
  delay(state: State, now: number): number;
  /** The largest cost that is admitted now. */
  remaining(state: State, now: number): number;
  /** How long until the state is as if never seen, 0 when it is. */
  resetAfter(state: State, now: number): number;
  /**
   * Charges `cost` units, above 0, whatever is owed already. `slot` names the charge apart from all others, and the
   * place that a concurrency rule takes; it is not 0.
   * Returns a copy of the state where it has a fixed size, else what finds the charge again in the list.
   */
  add(state: State, cost: number, now: number, slot: number, offset: number): Receipt;
  /** Takes `units` off what is owed, never below nothing. */
  refund(state: State, units: number, now: number): void;
  /** Takes `units` of one charge off, as far as they are still owed. Returns whether any of them were. */
  giveBack(state: State, units: number, now: number, receipt: Receipt): boolean;
  /**
   * The rule by which units have to be charged that are used up to `time` µs after their charge, so that what is used
   * keeps to this one; undefined where that would admit nothing. A rule without it knows no units charged ahead.
   */
  ahead?(time: number): Rule | undefined;
  /** How long units that are charged at `now` may be used for; asked of a state that holds them. */
  usableFor?(state: State, now: number): number;
}

/** The most a window counts, its cap of debt. */
export const MOST_UNITS: number = Number.MAX_SAFE_INTEGER;

/**
 * The Lua twin of an algorithm: what the methods of its rule do, over again, as blocks of Lua that run inside Redis; the
 * tests hold both to the same answers. A block finds the rule's numbers, `now`, and what the method of its name is
 * given as variables, `state` with lists that count from 1, and sets the variable that it is said to.
 */
export interface Twin {
  /** The names of the numbers that a rule hands over, in the order of `Rule.numbers`. */
  readonly numbers: readonly string[];
  /**
   * How struct.pack writes the state's numbers into a string. A twin without it keeps a list or a sorted set at
   * `state.key`, which it reads and writes itself.
   */
  readonly layout?: string;
  /**
   * Functions of the table `own`, for a twin without layout: `own.keep(state)` stores what `roll` changed, and where
   * slots are held `own.holds(state, slot)` tells whether one is.
   */
  readonly functions?: string;
  /** Sets `healed`; without layout also `state.known`, whether the key is stored, and `state.count`, 0 if it is whole. */
  readonly roll: string;
  /** Sets `wait` unless it is 0. */
  readonly wait: string;
  /** Sets `delay`; only where admitted requests wait in line. */
  readonly delay?: string;
  /** Sets `remaining`. */
  readonly remaining: string;
  /** Sets `resetAfter`. */
  readonly resetAfter: string;
  /**
   * Sets `ends` to the instant at which the state that `text` holds is whole again, unless it is already; only where
   * that follows from the state alone, whatever the rule is.
   */
  readonly ends?: string;
  readonly add: string;
  readonly refund: string;
  /** Sets `given` if there was something to give back. */
  readonly giveBack: string;
}
