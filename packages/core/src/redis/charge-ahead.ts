import type { Receipt, Rule } from '../algorithm.ts';
import type { LeaseRule } from '../lease.ts';
import type { Answer, Charge, Correction } from '../store.ts';

/** A charge of a leased limit as the store makes it: by the rule of the leases. */
class ChargeAhead implements Charge {
  readonly name: string;
  readonly key: string;
  readonly rule: Rule;
  readonly cost: number;
  readonly shadow: boolean;
  private readonly charge: Charge;

  constructor(charge: Charge, { rule }: LeaseRule) {
    this.charge = charge;
    this.rule = rule;
    this.name = charge.name;
    this.key = charge.key;
    this.cost = charge.cost;
    this.shadow = charge.shadow;
  }

  get receipt(): Receipt | undefined {
    return this.charge.receipt;
  }

  set receipt(receipt: Receipt | undefined) {
    this.charge.receipt = receipt;
  }
}

/** A charge as the store is to make it. */
export function asMade<C extends Charge>(charge: C): Charge {
  const { lease } = charge;
  return lease === undefined ? charge : new ChargeAhead(charge, lease);
}

export function correctionAsMade({ charge, units }: Correction): Correction {
  return { charge: asMade(charge), units };
}

/** What the store answered of charges as they were made, said of the limits as they are. */
export function ofLimits(answer: Answer, charges: readonly Charge[]): Answer {
  const rules = new Map(charges.map(({ name, rule }) => [name, rule]));
  const verdicts = answer.verdicts.map((verdict) => {
    const rule = rules.get(verdict.name);
    return rule === undefined ? verdict : { ...verdict, policy: rule.policy, limit: rule.quota };
  });
  const { admitted, at, delay, failure } = answer;
  return { admitted, at, delay, failure, verdicts };
}
