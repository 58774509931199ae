import type { Rule } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';
import type { BanRule } from '../ban.ts';
import type { ScriptArgs } from './connection.ts';

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
  private readonly rules = new Places<Rule | BanRule>();
  /** By a rule's number among them, after which place its numbers stand. */
  private readonly begins: number[] = [];
  private readonly numbers: number[] = [];
  private readonly items: number[] = [];
  private countsBans = false;

  constructor(withBans: boolean) {
    this.withBans = withBans;
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
    return this.placeOf(rule, ALGORITHMS.get(rule.policy.algorithm));
  }

  banRule(rule: BanRule): number {
    this.countsBans = true;
    return this.placeOf(rule, undefined);
  }

  imposesBans(): void {
    this.countsBans = true;
  }

  /** Arguments that run a script which is told all this. */
  args(script: string, clock: number | undefined): ScriptArgs {
    const { states, bans, slots } = this;
    const args: (string | Buffer)[] = [script, `${states.all.length + bans.all.length}`];
    for (const key of states.all) args.push(key);
    for (const key of bans.all) args.push(key);
    args.push(this.packed(clock));
    for (const slot of slots) args.push(slot);
    return args;
  }

  /** After which place among the doubles a rule stands. */
  private placeOf(rule: Rule | BanRule, algorithm: number | undefined): number {
    const known = this.rules.all.length;
    const number = this.rules.of(rule);
    if (number > known) {
      this.begins.push(HEAD + this.numbers.length + 1);
      if (algorithm !== undefined) this.numbers.push(algorithm);
      this.numbers.push(...rule.numbers);
    }
    return this.begins[number - 1] as number;
  }

  /** All numbers as one string, which costs both ends less than so many arguments, or a text. */
  private packed(clock: number | undefined): Buffer {
    const { numbers, items } = this;
    const begin = HEAD + numbers.length;
    const bytes = Buffer.allocUnsafe((begin + items.length) * BYTES);
    let at = bytes.writeDoubleLE(clock ?? NO_INSTANT, 0);
    at = bytes.writeDoubleLE(this.states.all.length, at);
    at = bytes.writeDoubleLE(this.countsBans ? 1 : 0, at);
    at = bytes.writeDoubleLE(begin, at);
    for (const number of numbers) at = bytes.writeDoubleLE(number, at);
    for (const number of items) at = bytes.writeDoubleLE(number, at);
    return bytes;
  }
}

/** Up to so many things are looked for one by one, which is less than to keep a map of them. */
const FEW = 8;

/** What has a place from 1 on, in the order in which it was first asked for. */
class Places<T> {
  readonly all: T[] = [];
  private places: Map<T, number> | undefined = undefined;

  of(thing: T): number {
    const known = this.places === undefined ? this.all.indexOf(thing) + 1 : this.places.get(thing);
    if (known !== undefined && known > 0) return known;
    const place = this.all.push(thing);
    if (place === FEW) this.places = new Map(this.all.map((one, index) => [one, index + 1]));
    else this.places?.set(thing, place);
    return place;
  }
}
