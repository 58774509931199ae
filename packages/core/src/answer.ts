import type { Rule, State } from './algorithm.ts';
import type { Answer, Charge } from './store.ts';
import { type Verdict, verdictOf } from './verdict.ts';

/** What a key's state says of a charge that has `wait` µs to wait, while its key is banned for `banned` µs more. */
export function verdictFrom(
  charge: Charge,
  state: State,
  now: number,
  wait: number,
  banned: number,
): Verdict {
  const { rule } = charge;
  const remaining = rule.remaining(state, now);
  const resetAfter = rule.resetAfter(state, now);
  const nextAfter = resetAfter === 0 ? 0 : rule.wait(state, remaining + 1, now);
  return verdictOf(charge, { wait, remaining, nextAfter, resetAfter }, banned);
}

/** The same answer with other verdicts, and admitted otherwise where that is said. */
export function withVerdicts(
  { admitted, at, delay, failure }: Answer,
  verdicts: readonly Verdict[],
  isAdmitted: boolean = admitted,
): Answer {
  return { admitted: isAdmitted, at, delay, failure, verdicts };
}

/** How a charge fared. */
interface Outcome {
  /** Whether the request is admitted. */
  readonly admitted: boolean;
  /** Whether the charge was made, or would have been; otherwise the state says how long it waits. */
  readonly taken: boolean;
  readonly delay: number;
  readonly banned: number;
}

export const TAKEN: Outcome = { admitted: true, taken: true, delay: 0, banned: 0 };
export const REFUSED: Outcome = { admitted: false, taken: false, delay: 0, banned: 0 };

/**
 * The answer to a single charge. Its verdict is worked out from a copy of the state, and only if it is read. One is made
 * at each decision, so it has few fields.
 */
export class ChargeAnswer implements Answer {
  readonly at: number;
  private readonly charge: Charge;
  private readonly state: Readonly<State>;
  private readonly outcome: Outcome;
  private known: readonly Verdict[] | undefined;

  /** @param after a copy of the state as the decision left it. */
  constructor(charge: Charge, after: Readonly<State>, at: number, outcome: Outcome) {
    this.charge = charge;
    this.state = after;
    this.at = at;
    this.outcome = outcome;
  }

  get admitted(): boolean {
    return this.outcome.admitted;
  }

  get delay(): number {
    return this.outcome.delay;
  }

  get verdicts(): readonly Verdict[] {
    return (this.known ??= [this.work()]);
  }

  get spare(): boolean {
    const { charge, at } = this;
    const rule: Rule = charge.rule;
    const { taken, banned } = this.outcome;
    return taken && banned === 0 && rule.remaining(this.state as State, at) > 0;
  }

  private work(): Verdict {
    const { charge, at } = this;
    const { taken, banned } = this.outcome;
    // The methods that it is handed to only read it.
    const state = this.state as State;
    const wait = taken ? 0 : charge.rule.wait(state, charge.cost, at);
    return verdictFrom(charge, state, at, wait, banned);
  }
}

/** The same with an outcome of its own. */
export class SingleAnswer extends ChargeAnswer {
  constructor(
    charge: Charge,
    after: Readonly<State>,
    admitted: boolean,
    taken: boolean,
    delay: number,
    at: number,
    banned: number,
  ) {
    super(charge, after, at, { admitted, taken, delay, banned });
  }
}
