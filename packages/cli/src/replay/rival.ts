import { type Policy, type Rule, ruleOf, type State } from '@tollgate/core';
import { copyOf } from './copy.ts';

/** Keys of each of two generations. */
const MOST_KEYS = 250_000;

/**
 * A limit alone under some policy, for counting only: a store would copy the whole log of a sliding log at each of
 * millions of decisions. The keys least recently seen are forgotten when there are too many.
 */
export class Rival {
  refused = 0;
  private readonly rule: Rule;
  private readonly cost: number;
  private recent = new Map<string, State>();
  private former = new Map<string, State>();
  /** Charges are named by negative numbers, as in a store. */
  private nextCharge = -1;

  constructor(policy: Policy, cost: number) {
    this.rule = ruleOf(policy);
    this.cost = cost;
  }

  /** Charges a request at a time, in microseconds, or counts its refusal. */
  consume(key: string, now: number): void {
    const { rule, cost } = this;
    const state = this.stateOf(key);
    const offset = rule.spreads ? rule.offset(key) : 0;
    rule.roll(state, now, offset);
    if (rule.wait(state, cost, now) > 0) this.refused++;
    else if (cost > 0) rule.add(state, cost, now, this.nextCharge--, offset);
  }

  private stateOf(key: string): State {
    const recent = this.recent.get(key);
    if (recent !== undefined) return recent;
    const former = this.former.get(key);
    const state = former ?? Array.from({ length: this.rule.size ?? 0 }, () => 0);
    if (this.recent.size >= MOST_KEYS) {
      this.former = this.recent;
      this.recent = new Map();
    }
    this.recent.set(copyOf(key), state);
    return state;
  }
}
