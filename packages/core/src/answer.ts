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

/** The answer to a single charge. Its verdict is worked out from a copy of the state, and only if it is read. */
export class SingleAnswer implements Answer {
  readonly admitted: boolean;
  readonly at: number;
  readonly delay: number;
  private readonly charge: Charge;
  private readonly state: Readonly<State>;
  private readonly taken: boolean;
  private readonly banned: number;
  private known: readonly Verdict[] | undefined;

  /**
   * @param after a copy of the state as the decision left it.
   * @param taken whether the charge was made, or would have been; otherwise the state says how long it waits.
   */
  constructor(
    charge: Charge,
    after: Readonly<State>,
    admitted: boolean,
    taken: boolean,
    delay: number,
    at: number,
    banned: number,
  ) {
    this.admitted = admitted;
    this.at = at;
    this.delay = delay;
    this.charge = charge;
    this.state = after;
    this.taken = taken;
    this.banned = banned;
    this.known = undefined;
  }

  get verdicts(): readonly Verdict[] {
    return (this.known ??= [this.work()]);
  }

  get spare(): boolean {
    const { charge, at } = this;
    const rule: Rule = charge.rule;
    return this.taken && this.banned === 0 && rule.remaining(this.state as State, at) > 0;
  }

  private work(): Verdict {
    const { charge, at } = this;
    // The methods that it is handed to only read it.
    const state = this.state as State;
    const wait = this.taken ? 0 : charge.rule.wait(state, charge.cost, at);
    return verdictFrom(charge, state, at, wait, this.banned);
  }
}
