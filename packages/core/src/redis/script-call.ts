import type { Rule } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';
import type { BanRule } from '../ban.ts';

const ALGORITHMS = new Map<string, number>(TWINS.map(([tag], index) => [tag, index + 1]));

/** Stands for the store's own clock. */
const NO_INSTANT = -1;
const BYTES = Float64Array.BYTES_PER_ELEMENT;

/** One call of the script as it is gathered: each key and each rule is told once, and meant by its place after that. */
export class ScriptCall {
  /** Whether keys are told that it can do without. */
  readonly withBans: boolean;
  private readonly states = new Places<string>();
  private readonly bans = new Places<string>();
  private readonly slots: string[] = [];
  private readonly rules = new Places<Rule>();
  private readonly ruleNumbers: number[] = [];
  private readonly banRules = new Places<BanRule>();
  private readonly banNumbers: number[] = [];
  private readonly items: number[] = [];
  private imposesBans = false;

  constructor(withBans: boolean) {
    this.withBans = withBans;
  }

  /** Those of states first. */
  get keys(): string[] {
    return [...this.states.all, ...this.bans.all];
  }

  tell(...items: number[]): void {
    for (const item of items) this.items.push(item);
  }

  key(key: string): number {
    return this.states.of(key);
  }

  /** @param key of bans. */
  banKey(key: string): number {
    return this.bans.of(key);
  }

  slot(name: string): number {
    // Before them goes what else is told.
    return this.slots.push(name) + 1;
  }

  rule(rule: Rule): number {
    const known = this.rules.all.length;
    const place = this.rules.of(rule);
    if (place > known) {
      this.ruleNumbers.push(ALGORITHMS.get(rule.policy.algorithm) as number, ...rule.numbers);
    }
    return place;
  }

  banRule(rule: BanRule): number {
    const known = this.banRules.all.length;
    const place = this.banRules.of(rule);
    if (place > known) this.banNumbers.push(...rule.numbers);
    return place;
  }

  imposes(): void {
    this.imposesBans = true;
  }

  /** The keys and all that is told, as a script is given them. */
  args(clock: number | undefined): (string | Buffer)[] {
    const { keys } = this;
    return [`${keys.length}`, ...keys, this.packed(clock), ...this.slots];
  }

  /** All numbers as one string, which costs both ends less than so many arguments, or a text. */
  private packed(clock: number | undefined): Buffer {
    const parts = [
      [clock ?? NO_INSTANT, this.states.all.length, this.imposesBans ? 1 : 0],
      [this.rules.all.length],
      this.ruleNumbers,
      [this.banRules.all.length],
      this.banNumbers,
      this.items,
    ];
    const bytes = Buffer.allocUnsafe(parts.reduce((sum, { length }) => sum + length, 0) * BYTES);
    let at = 0;
    for (const part of parts) for (const number of part) at = bytes.writeDoubleLE(number, at);
    return bytes;
  }
}

/** What has a place from 1 on, in the order in which it was first asked for. */
class Places<T> {
  readonly all: T[] = [];
  private readonly places = new Map<T, number>();

  of(thing: T): number {
    const known = this.places.get(thing);
    if (known !== undefined) return known;
    const place = this.all.push(thing);
    this.places.set(thing, place);
    return place;
  }
}
