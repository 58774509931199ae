import type { Rule } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';
import type { BanRule } from '../ban.ts';

const ALGORITHMS = new Map<string, number>(TWINS.map(([tag], index) => [tag, index + 1]));

/** Stands for the store's own clock. */
const NO_INSTANT = -1;
/** How many numbers are told before the rules. */
const HEAD = 4;
const BYTES = Float64Array.BYTES_PER_ELEMENT;

/** One call of the script as it is gathered: each key and each rule is told once, and meant by its place after that. */
export class ScriptCall {
  /** Whether keys are told that it can do without. */
  readonly withBans: boolean;
  private readonly states = new Places<string>();
  private readonly bans = new Places<string>();
  private readonly slots: string[] = [];
  private readonly rulePlaces = new Map<Rule | BanRule, number>();
  private readonly rules: number[] = [];
  private readonly items: number[] = [];
  private countsBans = false;

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
    const known = this.rulePlaces.get(rule);
    if (known !== undefined) return known;
    return this.place(rule, ALGORITHMS.get(rule.policy.algorithm) as number, ...rule.numbers);
  }

  banRule(rule: BanRule): number {
    this.countsBans = true;
    return this.rulePlaces.get(rule) ?? this.place(rule, ...rule.numbers);
  }

  imposesBans(): void {
    this.countsBans = true;
  }

  /** The keys and all that is told, as a script is given them. */
  args(clock: number | undefined): (string | Buffer)[] {
    const { keys } = this;
    return [`${keys.length}`, ...keys, this.packed(clock), ...this.slots];
  }

  private place(rule: Rule | BanRule, ...numbers: number[]): number {
    const place = HEAD + this.rules.length + 1;
    this.rules.push(...numbers);
    this.rulePlaces.set(rule, place);
    return place;
  }

  /** All numbers as one string, which costs both ends less than so many arguments, or a text. */
  private packed(clock: number | undefined): Buffer {
    const { rules, items } = this;
    const begin = HEAD + rules.length;
    const bytes = Buffer.allocUnsafe((begin + items.length) * BYTES);
    let at = bytes.writeDoubleLE(clock ?? NO_INSTANT, 0);
    at = bytes.writeDoubleLE(this.states.all.length, at);
    at = bytes.writeDoubleLE(this.countsBans ? 1 : 0, at);
    at = bytes.writeDoubleLE(begin, at);
    for (const number of rules) at = bytes.writeDoubleLE(number, at);
    for (const number of items) at = bytes.writeDoubleLE(number, at);
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
