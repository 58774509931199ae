import type { Rule } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';
import type { BanRule } from '../ban.ts';

/** One number or name that the script is told. */
export type Argument = number | string;

const ALGORITHMS = new Map<string, number>(TWINS.map(([tag], index) => [tag, index + 1]));

/** One call of the script as it is gathered: each key and each rule is told once, and meant by its place after that. */
export class ScriptCall {
  readonly keys: string[] = [];
  /** Whether keys are told that it can do without. */
  readonly withBans: boolean;
  private readonly places = new Map<string, number>();
  private readonly rules = new Map<Rule, number>();
  private readonly ruleNumbers: Argument[] = [];
  private readonly banRules = new Map<BanRule, number>();
  private readonly banNumbers: Argument[] = [];
  private readonly items: Argument[] = [];

  constructor(withBans: boolean) {
    this.withBans = withBans;
  }

  tell(...items: Argument[]): void {
    for (const item of items) this.items.push(item);
  }

  key(key: string): number {
    const known = this.places.get(key);
    if (known !== undefined) return known;
    const place = this.keys.push(key);
    this.places.set(key, place);
    return place;
  }

  rule(rule: Rule): number {
    const known = this.rules.get(rule);
    if (known !== undefined) return known;
    const place = this.rules.size + 1;
    this.rules.set(rule, place);
    this.ruleNumbers.push(ALGORITHMS.get(rule.policy.algorithm) as number, ...rule.numbers);
    return place;
  }

  banRule(rule: BanRule): number {
    const known = this.banRules.get(rule);
    if (known !== undefined) return known;
    const place = this.banRules.size + 1;
    this.banRules.set(rule, place);
    this.banNumbers.push(...rule.numbers);
    return place;
  }

  /** All of it as one text, which costs both ends less than so many arguments. */
  text(clock: number | undefined): string {
    return JSON.stringify([
      clock ?? '',
      this.rules.size,
      ...this.ruleNumbers,
      this.banRules.size,
      ...this.banNumbers,
      ...this.items,
    ]);
  }
}
