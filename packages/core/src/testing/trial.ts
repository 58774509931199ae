import { strict as assert } from 'node:assert';
import type { Rule } from '../algorithm.ts';
import type { Decision } from '../decision.ts';
import type { Verdict } from '../verdict.ts';
import { TollgateStoreError } from '../errors.ts';
import { createLimiter, type Limiter } from '../limiter.ts';
import type { CallOptions, Keys, LimitOptions } from '../limits.ts';
import type { Policy } from '../policy.ts';
import type { Charge, Store } from '../store.ts';
import type { ManualClock } from './manual-clock.ts';

/** A law of stores: `hold` rejects with an AssertionError where a store breaks it. */
export interface Law {
  readonly name: string;
  readonly hold: (trial: Trial) => Promise<void>;
}

/** A microsecond, in milliseconds. */
export const MICROSECOND = 0.001;

/** A store on trial: limiters on it, what they were told, and the clock that it goes by. */
export class Trial {
  readonly store: Store;
  readonly clock: ManualClock;
  private readonly limiters: Limiter[] = [];
  private readonly errors: unknown[] = [];

  constructor(store: Store, clock: ManualClock) {
    this.store = store;
    this.clock = clock;
  }

  /** A limiter on the store that lets nothing pass where the store fails, so that a failure shows. */
  limiter(limits: readonly LimitOptions[]): Limiter {
    const limiter: Limiter = createLimiter({
      store: this.store,
      limits: limits.map((limit) => ({ whenStoreFails: 'deny', ...limit })),
      onStoreError: (error) =>
        void this.errors.push(error instanceof TollgateStoreError ? (error.cause ?? error) : error),
    });
    this.limiters.push(limiter);
    return limiter;
  }

  /** A limiter with one limit, which is named `limit` and asked about one key. */
  one(policy: Policy, key = 'key'): OneLimit {
    return new OneLimit(this.limiter([{ name: 'limit', policy }]), key);
  }

  async close(): Promise<void> {
    for (const limiter of this.limiters) await limiter.close();
    if (this.limiters.length === 0) await this.store.close();
  }

  /** Throws the first error of the store that a limiter dealt with. */
  expectNoStoreError(): void {
    if (this.errors.length > 0) throw this.errors[0];
  }
}

/** One limit and one key of it. */
export class OneLimit {
  readonly limiter: Limiter;
  private readonly keys: Keys;

  constructor(limiter: Limiter, key: string) {
    this.limiter = limiter;
    this.keys = { limit: key };
  }

  async consume(cost = 1): Promise<Decision> {
    return asked(await this.limiter.consume(this.keys, this.options(cost)));
  }

  async peek(cost = 1): Promise<Verdict> {
    return only(asked(await this.limiter.peek(this.keys, this.options(cost))));
  }

  async charge(cost: number): Promise<Verdict> {
    return only(asked(await this.limiter.charge(this.keys, cost)));
  }

  async refund(cost: number): Promise<void> {
    await this.limiter.refund(this.keys, cost);
  }

  async reset(): Promise<void> {
    await this.limiter.reset(this.keys);
  }

  /** Consumes until it is refused, and returns the verdict that refuses. */
  async exhaust(cost = 1): Promise<Verdict> {
    for (let times = 0; times < 100; times++) {
      const verdict = only(await this.consume(cost));
      if (!verdict.allowed) return verdict;
    }
    return assert.fail(`a cost of ${cost} is admitted a hundred times at one instant`);
  }

  async expectRemaining(units: number, when: string): Promise<void> {
    assert.equal((await this.peek()).remaining, units, `remaining ${when}`);
  }

  /** Throws unless the key is as if never seen. */
  async expectWhole(when: string): Promise<void> {
    const { remaining, limit, resetAfterMs, nextAfterMs } = await this.peek();
    assert.deepEqual(
      { remaining, resetAfterMs, nextAfterMs },
      { remaining: limit, resetAfterMs: 0, nextAfterMs: 0 },
      `the key is as if never seen ${when}`,
    );
  }

  private options(cost: number): CallOptions {
    return { cost: { limit: cost } };
  }
}

/** The decision, which the store itself must have made. */
export function asked(decision: Decision): Decision {
  for (const { name, reason, source } of decision.verdicts) {
    assert.equal(source, 'store', `${name}: the store answers, but the reason is ${reason}`);
  }
  return decision;
}

/** The verdict of a decision that has one. */
export function only({ verdicts }: Decision): Verdict {
  const [verdict] = verdicts;
  assert.ok(verdict !== undefined && verdicts.length === 1, 'one verdict for one charge');
  return verdict;
}

/** How all keys stand: all but the words that a cost decides. */
export function standing({ verdicts }: Decision): object[] {
  return verdicts.map(({ name, remaining, nextAfterMs, resetAfterMs }) => ({
    name,
    remaining,
    nextAfterMs,
    resetAfterMs,
  }));
}

/** A charge as a limiter hands it to a store. */
export function chargeOf(rule: Rule, cost: number, of: Partial<Charge> = {}): Charge {
  return { name: 'limit', key: 'key', rule, cost, shadow: false, receipt: undefined, ...of };
}
