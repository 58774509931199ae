import type { Rule } from '../src/algorithm.ts';
import type { Policy } from '../src/policy.ts';
import type { Charge, Mode } from '../src/store.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import {
  type Announced,
  compare,
  guessOf,
  moved,
  type Pair,
  spanOf,
  type Step,
  unitsOf,
} from './exactness-steps.ts';
import { type Ask, Oracle } from './oracle.ts';

/** A charge that was made and is not settled yet. */
interface Booked {
  readonly at: number;
  readonly charge: Charge;
  readonly ask: Ask;
  readonly told: unknown;
}

/**
 * One key's history, told to a store and to the oracle. `run` throws at the first answer that differs, with the last
 * steps written out.
 */
export class History {
  private now: number;
  private readonly store = new MemoryStore({ clock: () => this.now });
  private readonly oracle = new Oracle();
  private readonly pairs: readonly Pair[];
  private readonly booked: Booked[] = [];
  private readonly lines: string[] = [];
  private announced: Announced;

  constructor(pairs: readonly Pair[], start: number) {
    this.pairs = pairs;
    this.now = start;
    this.announced = { at: start, retryAfter: 0, nextAfter: 0, resetAfter: 0, remaining: 0 };
  }

  run(history: readonly Step[]): void {
    try {
      for (const step of history) this.step(step);
    } catch (error) {
      const policies = this.pairs.map(({ rule }, index) => `${index}: ${show(rule.policy)}`);
      throw new Error([...policies, ...this.lines.slice(-25), String(error)].join('\n'), {
        cause: error,
      });
    }
  }

  private step(step: Step): void {
    const which = step.policy % this.pairs.length;
    const { rule, terms } = this.pairs[which] as Pair;
    const instants = this.booked.map(({ at }) => at);
    this.now = moved(this.now, step, spanOf(rule.policy), this.announced, instants);
    const units = unitsOf(step, rule.quota, this.announced.remaining);
    const cost = rule.overdraws ? units : Math.min(units, 20_000);
    const charge = { name: 'only', key: 'key', rule, cost, shadow: false, receipt: undefined };
    const ask = { key: 'key', terms, cost, shadow: false, offset: rule.offset('key') };
    const note = (what: string): unknown => this.lines.push(`at ${this.now} [${which}] ${what}`);
    switch (step.deed) {
      case 'consume':
      case 'peek':
      case 'charge':
        note(`${step.deed} ${cost}`);
        this.decide(charge, ask, step.deed);
        break;
      case 'refund':
        note(`refund ${cost}`);
        this.store.refund([charge]);
        this.oracle.refund(ask, this.now);
        break;
      case 'settleDown':
      case 'settleUp':
        this.settle(step, rule.holdsSlots, note);
        break;
      case 'renew':
        if (rule.holdsSlots) this.renew(step, rule, ask, note);
        break;
    }
    if (this.store.size === 0) this.forget(ask);
  }

  /** What the store has forgotten is forgotten by the oracle too, and must have been whole. */
  private forget(ask: Ask): void {
    const whole = this.pairs.some((pair) =>
      this.oracle.isWhole(
        { ...ask, terms: pair.terms, offset: pair.rule.offset(ask.key) },
        this.now,
      ),
    );
    if (!whole) throw new Error('the store forgot a key that was not whole');
    this.oracle.forget(ask.key);
  }

  private decide(charge: Charge, ask: Ask, mode: Mode): void {
    // A slot is one unit; only a question can be about more.
    const slot = charge.rule.holdsSlots && mode !== 'peek' && charge.cost > 1 ? { cost: 1 } : {};
    const asked: Charge = { ...charge, ...slot };
    const question: Ask = { ...ask, ...slot };
    const answer = this.store.decide([asked], mode);
    const told = this.oracle.decide([question], mode, this.now, [guessOf(answer, 0)]);
    compare(answer, told, [asked], this.now);
    if (asked.receipt !== undefined) {
      this.booked.push({ at: this.now, charge: asked, ask: question, told: told.receipts[0] });
    }
    this.announced = { at: this.now, ...guessOf(answer, 0) };
  }

  private settle({ deed, amount }: Step, held: boolean, note: (what: string) => unknown): void {
    // Mostly one of the newest: old receipts are worth nothing.
    const place = this.booked.length - 1 - (amount % 4);
    const [booked] = this.booked.splice(Math.max(0, place), 1);
    if (booked === undefined) return;
    const { charge, ask, told } = booked;
    const down = Math.ceil((charge.cost * ((amount % 10) + 1)) / 10);
    const units = deed === 'settleUp' && !held ? 1 + (amount % 50) : -down;
    note(`settle the ${charge.cost} of ${booked.at} by ${units}`);
    this.store.correct([{ charge, units }]);
    this.oracle.correct(ask, told, units, this.now);
  }

  private renew({ amount }: Step, rule: Rule, ask: Ask, note: (what: string) => unknown): void {
    const booked = this.booked[amount % (this.booked.length || 1)];
    if (booked === undefined) return;
    note(`renew the slot of ${booked.at}`);
    const [held] = this.store.renew([{ ...booked.charge, rule }]);
    const told = this.oracle.renew(ask, booked.told, this.now);
    if (held !== told) throw new Error(`renew: the store says ${held}, the oracle ${told}`);
  }
}

function show({ algorithm, ...numbers }: Policy): string {
  return `${algorithm} ${JSON.stringify(numbers)}`;
}
