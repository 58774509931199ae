import type { Policy } from '../src/policy.ts';
import { BucketTerms } from './exactness-buckets.ts';
import { ConcurrencyTerms, SlidingLogTerms } from './exactness-lists.ts';
import type { Terms } from './exactness-terms.ts';
import { FixedWindowTerms, SlidingWindowTerms } from './exactness-windows.ts';

/** The oracle's reading of a policy. `kept` slots of a concurrency limit are reserved for higher priorities. */
export function termsOf(policy: Policy, kept = 0): Terms {
  switch (policy.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket':
      return new BucketTerms(
        policy.capacity,
        policy.rate,
        policy.per,
        policy.algorithm === 'leaky-bucket',
      );
    case 'fixed-window':
      return new FixedWindowTerms(policy.limit, policy.window);
    case 'sliding-window':
      return new SlidingWindowTerms(policy.limit, policy.window);
    case 'sliding-log':
      return new SlidingLogTerms(policy.limit, policy.window);
    case 'concurrency':
      return new ConcurrencyTerms(policy, kept);
  }
}

/** One limit's part in a question to the oracle. */
export interface Ask {
  readonly key: string;
  readonly terms: Terms;
  readonly cost: number;
  readonly shadow: boolean;
  /** How far the key's windows are ahead of the epoch's, in microseconds. */
  readonly offset: number;
}

/** A verdict's numbers: units, and durations in microseconds. */
export interface Numbers {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly nextAfter: number;
  readonly resetAfter: number;
  readonly retryAfter: number;
}

export interface Told {
  readonly delay: number;
  readonly verdicts: readonly Numbers[];
  readonly receipts: readonly unknown[];
}

export type Guess = Omit<Numbers, 'allowed' | 'limit'> & { readonly delay: number };

const NO_GUESS: Guess = { remaining: 0, nextAfter: 0, resetAfter: 0, retryAfter: 0, delay: 0 };

/**
 * The least number from `from` on for which `holds`; once it holds it holds for all greater ones. The guess saves
 * time where it is right and changes nothing where it is wrong.
 */
export function least(from: bigint, guess: bigint, holds: (at: bigint) => boolean): bigint {
  let step = 1n;
  let low = from - 1n;
  let high = guess < from ? from : guess;
  if (holds(high)) {
    let down = high - step;
    while (down > low && holds(down)) {
      high = down;
      step *= 2n;
      down = high - step;
    }
    if (down > low) low = down;
  } else {
    do {
      low = high;
      high += step;
      step *= 2n;
    } while (!holds(high));
  }
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

const whole = (number: number): bigint =>
  Number.isFinite(number) ? BigInt(Math.round(number)) : 0n;

/**
 * What a store must answer, from the definitions: a wait is the least time after which the question is answered
 * differently, found by asking, and `remaining` is the largest cost that is admitted.
 */
export class Oracle {
  private readonly states: Map<string, unknown>;

  constructor(states: ReadonlyMap<string, unknown> = new Map()) {
    this.states = new Map(states);
  }

  /** Another that remembers the same, and goes its own way from here on. */
  copy(): Oracle {
    return new Oracle(this.states);
  }

  /** Nothing is remembered of the key. */
  forget(key: string): void {
    this.states.delete(key);
  }

  /** Whether the key owes nothing at `now`. */
  isWhole({ key, terms, offset }: Ask, now: number): boolean {
    return terms.whole(terms.seen(this.remembered(key, terms), BigInt(now), BigInt(offset)).state);
  }

  /**
   * @param guesses what another says of each charge, which saves the oracle from searching far. Its answers do not
   * depend on them.
   */
  decide(
    asks: readonly Ask[],
    mode: 'consume' | 'peek' | 'charge',
    now: number,
    guesses: readonly Guess[] = [],
  ): Told {
    const looks = asks.map((ask) => {
      const at = BigInt(now);
      const offset = BigInt(ask.offset);
      const { state, healed } = ask.terms.seen(this.remembered(ask.key, ask.terms), at, offset);
      const unasked = mode === 'charge' && ask.terms.overdraws;
      return { at, state, healed, allowed: unasked || this.admits(ask, state, at) };
    });
    const admitted = looks.every(({ allowed }, index) => allowed || asks[index]?.shadow);
    let delay = 0;
    const receipts: unknown[] = [];
    const verdicts = looks.map(({ at, state, healed, allowed }, index) => {
      const ask = asks[index] as Ask;
      const { key, terms, cost } = ask;
      const guess = guesses[index] ?? NO_GUESS;
      if (admitted && allowed && terms.queues && !ask.shadow) {
        delay = Math.max(delay, this.untilWhole(ask, state, at, guess.delay));
      }
      const retryAfter = allowed ? 0 : this.until(ask, cost, state, at, guess.retryAfter);
      let after = state;
      if (admitted && allowed && mode !== 'peek' && cost > 0) {
        const charged = terms.charge(state, BigInt(cost), at, BigInt(ask.offset));
        after = charged.state;
        receipts[index] = charged.receipt;
      }
      if (after !== state || (healed && mode !== 'peek')) this.states.set(key, after);
      return { allowed, retryAfter, ...this.numbers(ask, after, at, guess) };
    });
    return { delay, verdicts, receipts };
  }

  /** Takes (below 0) or adds units of one charge. */
  correct({ key, terms, offset }: Ask, receipt: unknown, units: number, now: number): void {
    if (units < 0 && !this.states.has(key)) return;
    const at = BigInt(now);
    const { state, healed } = terms.seen(this.remembered(key, terms), at, BigInt(offset));
    if (units < 0) {
      const given = terms.giveBack(state, BigInt(-units), receipt, at);
      if (given !== undefined || healed) this.states.set(key, given ?? state);
      return;
    }
    // Where there is no debt, what fits is taken.
    const fits = terms.overdraws ? units : this.remaining(terms, state, at, 0);
    const extra = BigInt(Math.min(units, fits));
    if (extra > 0n) this.states.set(key, terms.charge(state, extra, at, BigInt(offset)).state);
  }

  refund({ key, terms, cost, offset }: Ask, now: number): void {
    if (!this.states.has(key)) return;
    const at = BigInt(now);
    const { state } = terms.seen(this.remembered(key, terms), at, BigInt(offset));
    this.states.set(key, terms.refund(state, BigInt(cost), at));
  }

  /** Whether the slot is still held. */
  renew({ key, terms }: Ask, receipt: unknown, now: number): boolean {
    if (!(terms instanceof ConcurrencyTerms)) throw new TypeError('only slots are renewed');
    const at = BigInt(now);
    const { state } = terms.seen(this.slots(key), at);
    const renewed = terms.renew(state, receipt as object, at);
    if (renewed !== undefined) this.states.set(key, renewed);
    return renewed !== undefined;
  }

  private slots(key: string): ConcurrencyTerms['fresh'] {
    return (this.states.get(key) ?? []) as ConcurrencyTerms['fresh'];
  }

  private remembered(key: string, terms: Terms): unknown {
    return this.states.has(key) ? this.states.get(key) : terms.fresh;
  }

  private admits({ terms, cost }: Ask, state: unknown, at: bigint): boolean {
    return terms.admits(state, BigInt(cost), at);
  }

  private numbers(
    ask: Ask,
    state: unknown,
    at: bigint,
    guess: Guess,
  ): Omit<Numbers, 'allowed' | 'retryAfter'> {
    const { terms } = ask;
    const remaining = this.remaining(terms, state, at, guess.remaining);
    const resetAfter = this.untilWhole(ask, state, at, guess.resetAfter);
    const nextAfter =
      resetAfter === 0 ? 0 : this.until(ask, remaining + 1, state, at, guess.nextAfter);
    return { limit: Number(terms.limit), remaining, nextAfter, resetAfter };
  }

  /** The largest cost that is admitted; 0 also where not even that is. */
  private remaining(terms: Terms, state: unknown, at: bigint, guess: number): number {
    const refused = (cost: bigint): boolean => !terms.admits(state, cost + 1n, at);
    return Number(least(0n, whole(guess), refused));
  }

  private untilWhole({ terms, offset }: Ask, state: unknown, at: bigint, guess: number): number {
    if (terms.whole(state)) return 0;
    return Number(
      least(at, at + whole(guess), (then) =>
        terms.whole(terms.seen(state, then, BigInt(offset)).state),
      ) - at,
    );
  }

  /** How long until `cost` is admitted: never, if a key of which nothing is remembered refuses it. */
  private until(
    { terms, offset }: Ask,
    units: number,
    state: unknown,
    at: bigint,
    guess: number,
  ): number {
    const cost = BigInt(units);
    if (!terms.admits(terms.fresh, cost, at)) return Infinity;
    const wait = least(at, at + whole(guess), (then) =>
      terms.admits(terms.seen(state, then, BigInt(offset)).state, cost, then),
    );
    return Number(wait - at);
  }
}
