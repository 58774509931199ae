import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nextSeed, TIMES } from '../../../test/seed.ts';
import type { Charge } from '../src/store.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import {
  type Announced,
  compare,
  costs,
  guessOf,
  moved,
  type Pair,
  pairOf,
  spanOf,
  starts,
  type Step,
  step,
  unitsOf,
} from './exactness-steps.ts';
import {
  fixedWindows,
  leakyBuckets,
  slidingLogs,
  slidingWindows,
  slots,
  tokenBuckets,
} from './exactness-policies.ts';
import { type Ask, Oracle } from './oracle.ts';

const STEPS = 200_000 * TIMES;

interface Layer extends Pair {
  readonly name: string;
  readonly key: string;
  readonly shadow: boolean;
}

interface LayeredStep extends Step {
  /** Which limits apply, a bit each. */
  readonly applies: number;
  readonly costs: readonly Step['cost'][];
}

const layer = fc
  .tuple(
    fc.oneof(tokenBuckets, leakyBuckets, fixedWindows, slidingWindows, slidingLogs, slots),
    fc.constantFrom(false, false, true),
    fc.nat(2),
  )
  .map(([family, shadow, kept]) => ({ policy: family[0], shadow, kept }));

const layers = fc.array(layer, { minLength: 2, maxLength: 4 }).map((made) =>
  made.flatMap(({ policy, shadow, kept }, index): Layer[] => {
    if (policy === undefined) return [];
    return [{ ...pairOf(policy, kept), name: `limit${index}`, key: `key${index}`, shadow }];
  }),
);

const layeredSteps = fc.array(
  fc.tuple(step, fc.integer({ min: 1, max: 15 }), fc.array(costs, { minLength: 4, maxLength: 4 })),
  { minLength: 1, maxLength: 200, size: 'max' },
);

interface Booked {
  readonly at: number;
  readonly charges: readonly Charge[];
  readonly asks: readonly Ask[];
  readonly receipts: readonly unknown[];
}

/** Requests under several limits at once, told to a store and to the oracle. */
class LayeredHistory {
  private now: number;
  private readonly store = new MemoryStore({ clock: () => this.now });
  private readonly oracle = new Oracle();
  private readonly layers: readonly Layer[];
  private readonly booked: Booked[] = [];
  private readonly announced = new Map<string, Announced>();
  private readonly lines: string[] = [];

  constructor(made: readonly Layer[], start: number) {
    this.layers = made;
    this.now = start;
  }

  run(history: readonly LayeredStep[]): void {
    try {
      for (const each of history) this.step(each);
    } catch (error) {
      const policies = this.layers.map(({ name, shadow, rule }) =>
        JSON.stringify({ name, shadow, policy: rule.policy }),
      );
      throw new Error([...policies, ...this.lines.slice(-15), String(error)].join('\n'), {
        cause: error,
      });
    }
  }

  private step(each: LayeredStep): void {
    const { deed, amount, applies } = each;
    this.move(each);
    const applied = this.layers.filter((_, index) => (applies >> index) % 2 === 1);
    const charges = applied.map(({ name, key, rule, shadow }, index): Charge => {
      const units = unitsOf(
        { ...each, cost: each.costs[index] ?? 'one' },
        rule.quota,
        this.announced.get(name)?.remaining ?? rule.quota,
      );
      const cost = rule.holdsSlots ? units % 2 : Math.min(units, rule.overdraws ? units : 20_000);
      return { name, key, rule, cost, shadow, receipt: undefined };
    });
    const asks = applied.map(({ name, key, terms, rule, shadow }, index): Ask => ({
      key: name,
      terms,
      cost: charges[index]?.cost ?? 0,
      shadow,
      offset: rule.offset(key),
    }));
    this.lines.push(
      `at ${this.now} ${deed} ${charges.map(({ name, cost }) => `${name}: ${cost}`).join(', ')}`,
    );
    if (deed === 'consume' || deed === 'peek' || deed === 'charge') {
      this.decide(deed, charges, asks);
    } else if (deed === 'refund') {
      this.store.refund(charges);
      asks.forEach((ask) => this.oracle.refund(ask, this.now));
    } else {
      this.settle(amount);
    }
  }

  private decide(mode: 'consume' | 'peek' | 'charge', charges: Charge[], asks: Ask[]): void {
    const answer = this.store.decide(charges, mode);
    const guesses = charges.map((_, index) => guessOf(answer, index));
    const told = this.oracle.decide(asks, mode, this.now, guesses);
    compare(answer, told, charges, this.now);
    charges.forEach(({ name }, index) =>
      this.announced.set(name, { at: this.now, ...guessOf(answer, index) }),
    );
    const { receipts } = told;
    if (receipts.length > 0) this.booked.push({ at: this.now, charges, asks, receipts });
  }

  /** Corrects every charge of one decision, down or up. */
  private settle(amount: number): void {
    const place = Math.max(0, this.booked.length - 1 - (amount % 3));
    const [booked] = this.booked.splice(place, 1);
    if (booked === undefined) return;
    const corrections = booked.charges.flatMap((charge, index) => {
      if (charge.receipt === undefined) return [];
      const part = Math.ceil((charge.cost * (((amount + index) % 10) + 1)) / 10);
      const down = -Math.min(charge.cost, part);
      const units = (amount + index) % 3 === 0 && !charge.rule.holdsSlots ? 1 + index : down;
      this.oracle.correct(booked.asks[index] as Ask, booked.receipts[index], units, this.now);
      return [{ charge, units }];
    });
    this.store.correct(corrections);
  }

  /** The clock moves by what one of the limits announced. */
  private move(each: LayeredStep): void {
    const { name, rule } = this.layers[each.amount % this.layers.length] as Layer;
    const nothing = { at: this.now, retryAfter: 0, nextAfter: 0, resetAfter: 0, remaining: 0 };
    const instants = this.booked.map(({ at }) => at);
    const announced = this.announced.get(name) ?? nothing;
    const to = moved(this.now, each, spanOf(rule.policy), announced, instants);
    // When a store forgets a whole key is its own affair, but shows once the clock steps back.
    if (to < this.now) this.forgetWhole();
    this.now = to;
  }

  private forgetWhole(): void {
    for (const { name, key, terms, rule, shadow } of this.layers) {
      const ask = { key: name, terms, cost: 0, shadow, offset: rule.offset(key) };
      if (!this.oracle.isWhole(ask, this.now)) continue;
      this.store.reset([{ name, key }]);
      this.oracle.forget(name);
      // Nor are its charges settled: one at the very same instant later on could be taken for them.
      const charges = this.booked.flatMap((booked) => booked.charges);
      for (const charge of charges) if (charge.name === name) charge.receipt = undefined;
    }
  }
}

test('several limits at once answer as the oracle does, all or nothing', () => {
  let count = 0;
  while (count < STEPS) {
    fc.assert(
      fc.property(layers, starts, layeredSteps, (made, start, drawn) => {
        const history = drawn.map(([each, applies, made4]): LayeredStep => ({
          ...each,
          applies,
          costs: made4,
        }));
        new LayeredHistory(made, start).run(history);
        count += history.length;
      }),
      { numRuns: 100, seed: nextSeed() },
    );
  }
  expect(count).toBeGreaterThanOrEqual(STEPS);
});
