import { compare, guessOf, type Pair, type Step } from './exactness-steps.ts';
import { chargeOf, Director, KEY, type Op, show, World } from './exactness-world.ts';
import { type Ask, Oracle } from './oracle.ts';

/**
 * One key's history, told to a store and to the oracle. `run` throws at the first answer that differs, with the last
 * steps written out.
 */
export class History {
  private readonly pairs: readonly Pair[];
  private readonly world = new World();
  private readonly oracle = new Oracle();
  private readonly director: Director;
  private readonly receipts = new Map<Op, unknown>();
  private readonly lines: string[] = [];

  constructor(pairs: readonly Pair[], start: number) {
    this.pairs = pairs;
    this.director = new Director(
      pairs.map(({ rule }) => rule),
      start,
    );
  }

  run(history: readonly Step[]): void {
    try {
      for (const step of history) {
        const op = this.director.op(step);
        if (op !== undefined) this.tell(op);
      }
    } catch (error) {
      const policies = this.pairs.map(({ rule }, index) => `${index}: ${show(rule.policy)}`);
      throw new Error([...policies, ...this.lines.slice(-25), String(error)].join('\n'), {
        cause: error,
      });
    }
  }

  private tell(op: Op): void {
    const { at, deed, which, units, of } = op;
    const whose = of === undefined ? '' : ` for the charge at ${of.at}`;
    this.lines.push(`at ${at} [${which}] ${deed} ${units}${whose}`);
    const done = this.world.do(op);
    const ask = this.ask(op);
    switch (deed) {
      case 'consume':
      case 'peek':
      case 'charge': {
        const { answer, charge = chargeOf(op) } = done;
        if (answer === undefined) throw new Error('no answer');
        // Now and then without a hint, so that a wrong one would not go unnoticed.
        const guesses = this.lines.length % 64 === 0 ? [] : [guessOf(answer, 0)];
        const told = this.oracle.decide([ask], deed, at, guesses);
        compare(answer, told, [charge], at);
        this.receipts.set(op, told.receipts[0]);
        break;
      }
      case 'refund':
        this.oracle.refund(ask, at);
        break;
      case 'settle':
        this.oracle.correct(ask, of && this.receipts.get(of), units, at);
        break;
      case 'renew': {
        const held = this.oracle.renew(ask, of && this.receipts.get(of), at);
        if (held !== done.held) {
          throw new Error(`renew: the store says ${done.held}, the oracle ${held}`);
        }
        break;
      }
    }
    this.director.heard(op, done);
    if (!this.world.remembers) this.forget(op);
  }

  /** What the store has forgotten is forgotten by the oracle too, and must have been whole. */
  private forget(op: Op): void {
    const whole = this.pairs.some((pair) => this.oracle.isWhole(this.ask(op, pair), op.at));
    if (!whole) throw new Error('the store forgot a key that was not whole');
    this.oracle.forget(KEY);
    this.director.forget();
  }

  private ask({ which, units }: Op, pair = this.pairs[which] as Pair): Ask {
    const { rule, terms } = pair;
    return { key: KEY, terms, cost: units, shadow: false, offset: rule.offset(KEY) };
  }
}
