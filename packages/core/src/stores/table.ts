import type { Rule, State } from '../algorithm.ts';

/** Enough shards that growing or shrinking one of them is no pause, even at a million keys. A power of two. */
const SHARDS = 64;
const SMALLEST = 8;
/** A shard that is full is made larger by this: a larger factor would be faster by little and keep more room unused. */
const GROWTH = 1.25;

/** Mixes a few characters from all over the key: enough to spread keys over the shards, cheap on long ones. */
function shardOf(key: string): number {
  const last = key.length - 1;
  const middle = last >> 1;
  return (
    (key.charCodeAt(last) * 5 +
      key.charCodeAt(middle) * 11 +
      key.charCodeAt(last - (middle >> 1)) * 23 +
      key.length) &
    (SHARDS - 1)
  );
}

/**
 * Some keys of a table: a map from key to slot, and columns of what is known of each slot. States of a fixed size lie
 * in one array of numbers, so that a key costs neither an object nor the garbage collector's time.
 *
 * Slots stay valid until the next `remove`, which moves the last key into the slot that is free.
 */
export class Shard {
  readonly keys: string[] = [];
  /** Keys removed so far: as long as these are no more, every key stands where it stood. */
  removed = 0;
  private readonly slots: Map<string, number> = new Map();
  /** By which all states were written, since most limits have one policy for all keys; else `rules` says it of each. */
  private common: Rule | undefined;
  private rules: Rule[] | undefined;
  private readonly lists: State[] = [];
  private numbers: Float64Array;
  /** How many numbers a state has; undefined for lists. */
  private readonly width: number | undefined;

  constructor(width: number | undefined) {
    this.width = width;
    this.numbers = new Float64Array(SMALLEST * (width ?? 0));
  }

  /** The slot of a key, or -1. */
  find(key: string): number {
    return this.slots.get(key) ?? -1;
  }

  /** Copies the state in a slot, all zeros for -1, into `state`; a list is returned as it stands. */
  read(slot: number, state: State): State {
    const { numbers, width } = this;
    if (width === undefined) return slot === -1 ? [] : (this.lists[slot] as State);
    if (slot === -1) return unseen(state);
    const from = slot * width;
    for (let i = 0; i < width; i++) state[i] = numbers[from + i] as number;
    return state;
  }

  /** Keeps a state for the key in a slot. */
  write(slot: number, rule: Rule, state: State): void {
    const { numbers, width } = this;
    if (this.common !== rule) this.setRule(slot, rule);
    if (width === undefined) {
      this.lists[slot] = state;
      return;
    }
    const from = slot * width;
    for (let i = 0; i < width; i++) numbers[from + i] = state[i] as number;
  }

  remove(slot: number): void {
    this.removed++;
    const last = this.keys.length - 1;
    this.slots.delete(this.keys[slot] as string);
    if (slot !== last) {
      const moved = this.keys[last] as string;
      this.keys[slot] = moved;
      if (this.rules !== undefined) this.rules[slot] = this.rules[last] as Rule;
      if (this.width === undefined) this.lists[slot] = this.lists[last] as State;
      else this.numbers.copyWithin(slot * this.width, last * this.width, (last + 1) * this.width);
      this.slots.set(moved, slot);
    }
    this.keys.length = last;
    if (this.rules !== undefined) this.rules.length = last;
    if (this.width === undefined) this.lists.length = last;
    else if (
      this.numbers.length > SMALLEST * this.width &&
      last * this.width * 4 < this.numbers.length
    ) {
      this.numbers = this.numbers.slice(0, this.numbers.length / 2);
    }
  }

  rule(slot: number): Rule {
    return this.common ?? (this.rules?.[slot] as Rule);
  }

  /** Notes by which rule a state is written that was written by another, or never. */
  private setRule(slot: number, rule: Rule): void {
    if (this.keys.length === 1) {
      this.common = rule;
      this.rules = undefined;
      return;
    }
    const common = this.common as Rule;
    this.rules ??= this.keys.map(() => common);
    this.rules[slot] = rule;
    this.common = undefined;
  }

  /** Adds a key, whose state is written next. Returns its slot. */
  append(key: string): number {
    const slot = this.keys.length;
    const own = flat(key);
    this.keys.push(own);
    this.slots.set(own, slot);
    if (this.width !== undefined && (slot + 1) * this.width > this.numbers.length) {
      const grown = new Float64Array(Math.ceil((slot + 1) * GROWTH) * this.width);
      grown.set(this.numbers);
      this.numbers = grown;
    }
    return slot;
  }
}

function unseen(state: State): State {
  for (let i = 0; i < state.length; i++) state[i] = 0;
  return state;
}

/** A copy of a text. One cut from a longer text, such as a header, would keep all of that in memory. */
function flat(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}

/** The keys of one limit under one algorithm, in shards. */
export class Table {
  readonly name: string;
  readonly algorithm: string;
  /** Keys held. */
  size = 0;
  private readonly width: number | undefined;
  private readonly shards: (Shard | undefined)[] = Array.from({ length: SHARDS });
  private cursorShard = 0;
  private cursorSlot = 0;

  constructor(name: string, algorithm: string, width: number | undefined) {
    this.name = name;
    this.algorithm = algorithm;
    this.width = width;
  }

  /** The shard that a key belongs to. */
  shard(key: string): Shard {
    return (this.shards[shardOf(key)] ??= new Shard(this.width));
  }

  /**
   * Shows the keys that stand at `from`, at `from + step` and so on, of the keys held, and returns where the next one
   * would stand, counted from the end of these. Shards may be of very different sizes.
   */
  visit(from: number, step: number, show: (shard: Shard, slot: number) => void): number {
    let next = from;
    for (const shard of this.shards) {
      if (shard === undefined) continue;
      const { length } = shard.keys;
      while (next < length) {
        show(shard, Math.floor(next));
        next += step;
      }
      next -= length;
    }
    return next;
  }

  /** Shows the next `steps` keys in turn; `forget` says whether it removed the one that it was shown. */
  look(steps: number, forget: (shard: Shard, slot: number) => boolean): void {
    for (let step = 0; step < steps; step++) {
      const shard = this.shards[this.cursorShard];
      if (shard === undefined || this.cursorSlot >= shard.keys.length) {
        this.cursorShard = (this.cursorShard + 1) % SHARDS;
        this.cursorSlot = 0;
      } else if (!forget(shard, this.cursorSlot)) {
        // Else the last key moved here, and is shown next.
        this.cursorSlot++;
      }
    }
  }
}
