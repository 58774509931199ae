import type { Rule } from '../src/algorithm.ts';
import type { Policy } from '../src/policy.ts';
import type { Answer, Charge } from '../src/store.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import { type Announced, guessOf, moved, spanOf, type Step, unitsOf } from './exactness-steps.ts';

/** One call to a store about one key: a step with its numbers, so that it can be repeated elsewhere. */
export interface Op {
  readonly deed: 'consume' | 'peek' | 'charge' | 'refund' | 'settle' | 'renew';
  readonly at: number;
  /** Which of the policies. */
  readonly which: number;
  readonly rule: Rule;
  /** The cost; of a settlement what is given back (below 0) or added. */
  readonly units: number;
  /** The charge that is settled or renewed. */
  readonly of: Op | undefined;
}

export interface Done {
  readonly answer: Answer | undefined;
  readonly charge: Charge | undefined;
  /** Whether a renewed slot was still held. */
  readonly held: boolean | undefined;
}

export const KEY = 'key';

export function chargeOf({ rule, units }: Pick<Op, 'rule' | 'units'>): Charge {
  return { name: 'only', key: KEY, rule, cost: units, shadow: false, receipt: undefined };
}

export function show({ algorithm, ...numbers }: Policy): string {
  return `${algorithm} ${JSON.stringify(numbers)}`;
}

/** A store with a clock that obeys, to which ops happen. */
export class World {
  private now = 0;
  private readonly store = new MemoryStore({ clock: () => this.now });
  private readonly charges = new Map<Op, Charge>();

  /** Whether the store remembers the key. */
  get remembers(): boolean {
    return this.store.size > 0;
  }

  do(op: Op): Done {
    const nothing = { answer: undefined, charge: undefined, held: undefined };
    this.now = op.at;
    const earlier = op.of && this.charges.get(op.of);
    switch (op.deed) {
      case 'consume':
      case 'peek':
      case 'charge': {
        const charge = chargeOf(op);
        const answer = this.store.decide([charge], op.deed);
        if (charge.receipt !== undefined) this.charges.set(op, charge);
        return { ...nothing, answer, charge };
      }
      case 'refund':
        this.store.refund([chargeOf(op)]);
        return nothing;
      case 'settle':
        if (earlier !== undefined) this.store.correct([{ charge: earlier, units: op.units }]);
        return nothing;
      case 'renew': {
        if (earlier === undefined) return nothing;
        const [held] = this.store.renew([{ ...earlier, rule: op.rule }]);
        return { ...nothing, held };
      }
    }
  }
}

/** Makes steps into ops, with what the key was last told in mind. */
export class Director {
  private readonly rules: readonly Rule[];
  private now: number;
  private announced: Announced;
  /** Charges that are not settled yet, oldest first. */
  private readonly booked: Op[] = [];

  constructor(rules: readonly Rule[], start: number) {
    this.rules = rules;
    this.now = start;
    this.announced = { at: start, retryAfter: 0, nextAfter: 0, resetAfter: 0, remaining: 0 };
  }

  /** The next op; undefined where a step means a charge that there is not. */
  op(step: Step): Op | undefined {
    const which = step.policy % this.rules.length;
    const rule = this.rules[which] as Rule;
    const instants = this.booked.map(({ at }) => at);
    this.now = moved(this.now, step, spanOf(rule.policy), this.announced, instants);
    const units = unitsOf(step, rule.quota, this.announced.remaining);
    const op = { at: this.now, which, rule, of: undefined };
    switch (step.deed) {
      case 'settleDown':
      case 'settleUp':
        return this.settle(step, op);
      case 'renew': {
        const of = this.booked[step.amount % (this.booked.length || 1)];
        return of && rule.holdsSlots ? { ...op, deed: 'renew', units: 0, of } : undefined;
      }
      case 'peek':
      case 'refund':
        return { ...op, deed: step.deed, units };
      default:
        // A slot is one unit, and a log remembers every unit.
        return {
          ...op,
          deed: step.deed,
          units: Math.min(units, rule.holdsSlots ? 1 : rule.overdraws ? units : 20_000),
        };
    }
  }

  /**
   * The key was forgotten, and with it what the charges left behind: one at the very same instant later on could be
   * taken for them.
   */
  forget(): void {
    this.booked.length = 0;
  }

  heard(op: Op, { answer, charge }: Done): void {
    if (answer !== undefined) this.announced = { at: op.at, ...guessOf(answer, 0) };
    if (charge?.receipt !== undefined) this.booked.push(op);
  }

  private settle({ deed, amount }: Step, op: Omit<Op, 'deed' | 'units'>): Op | undefined {
    // Mostly one of the newest: old receipts are worth nothing.
    const place = Math.max(0, this.booked.length - 1 - (amount % 4));
    const [of] = this.booked.splice(place, 1);
    if (of === undefined) return undefined;
    const down = Math.min(of.units, Math.ceil((of.units * ((amount % 10) + 1)) / 10));
    const units = deed === 'settleUp' && !of.rule.holdsSlots ? 1 + (amount % 50) : -down;
    return { ...op, deed: 'settle', which: of.which, rule: of.rule, units, of };
  }
}

export interface Event extends Done {
  readonly op: Op;
}

/**
 * Lets steps happen to a world; without a policy there are none.
 *
 * @param forward the clock never steps back.
 */
export function happen(
  world: World,
  rules: readonly Rule[],
  start: number,
  steps: readonly Step[],
  forward: boolean,
): Event[] {
  if (rules.length === 0) return [];
  const director = new Director(rules, start);
  let now = start;
  return steps.flatMap((step) => {
    const next = director.op(step);
    if (next === undefined) return [];
    const op = forward ? { ...next, at: Math.max(now, next.at) } : next;
    now = op.at;
    const done = world.do(op);
    director.heard(op, done);
    return [{ op, ...done }];
  });
}

/** What an answer says, to be compared with another's. */
export function said({ answer, held }: Done): string {
  if (answer === undefined) return `held: ${held}`;
  const { delay, verdicts } = answer;
  const numbers = verdicts.map((verdict) => [
    verdict.allowed,
    verdict.reason,
    verdict.limit,
    verdict.remaining,
    verdict.nextAfterMs,
    verdict.resetAfterMs,
    verdict.retryAfterMs,
  ]);
  return `delay ${delay}, ${numbers.join('; ')}`;
}
