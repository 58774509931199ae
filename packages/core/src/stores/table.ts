import type { Rule, State } from '../algorithm.ts';

/** Enough shards that growing or shrinking one of them is no pause, even at a million keys. A power of two. */
const SHARDS = 64;
const SMALLEST = 8;

/** Some of a table's keys: a map from key to slot, and what is known of each slot in columns. */
class Shard {
  readonly slots: Map<string, number> = new Map();
  readonly keys: string[] = [];
  readonly rules: Rule[] = [];
  readonly lists: State[] = [];
  numbers: Float64Array;

  constructor(stride: number) {
    this.numbers = new Float64Array(SMALLEST * stride);
  }
}

/** Mixes a few characters from all over the key: enough to spread keys over the shards, cheap on long ones. */
function shardOf(key: string): number {
  const { length } = key;
  return (
    (key.charCodeAt(length - 1) * 5 +
      key.charCodeAt(length >> 1) * 11 +
      key.charCodeAt(length >> 2) * 23 +
      key.charCodeAt(length - (length >> 2) - 1) * 43 +
      length) &
    (SHARDS - 1)
  );
}

/**
 * The keys of one limit under one algorithm, in columns rather than objects: states of a fixed size lie in one array
 * of numbers, so that a key costs neither an object nor the garbage collector's time.
 *
 * A key is found by `find`, which returns its place. Places stay valid until the next `remove` or `sweep`.
 */
export class Table {
  /** Keys held. */
  size = 0;
  /** How many numbers a state has; undefined for lists. */
  private readonly width: number | undefined;
  private readonly stride: number;
  private readonly shards: (Shard | undefined)[] = Array.from({ length: SHARDS });
  private cursorShard = 0;
  private cursorSlot = 0;

  constructor(width: number | undefined) {
    this.width = width;
    this.stride = (width ?? 0) + 1;
  }

  /** The place of a key, or -1. */
  find(key: string): number {
    const number = shardOf(key);
    const slot = this.shards[number]?.slots.get(key);
    return slot === undefined ? -1 : slot * SHARDS + number;
  }

  /** Copies the state at a place, all zeros for -1, into `state`; a list is returned as it stands. */
  read(place: number, state: State): State {
    if (this.width === undefined) {
      return place === -1 ? [] : (this.at(place).lists[slotOf(place)] as State);
    }
    if (place === -1) {
      for (let i = 0; i < this.width; i++) state[i] = 0;
      return state;
    }
    const { numbers } = this.at(place);
    const from = slotOf(place) * this.stride;
    for (let i = 0; i < this.width; i++) state[i] = numbers[from + i] as number;
    return state;
  }

  /** Keeps a state for a key, which `find` said is at `place`. `wholeAt` is when it may be forgotten. */
  write(place: number, key: string, rule: Rule, state: State, wholeAt: number): void {
    const at = place === -1 ? this.append(key) : place;
    const shard = this.at(at);
    const slot = slotOf(at);
    const from = slot * this.stride;
    shard.rules[slot] = rule;
    shard.numbers[from + this.stride - 1] = wholeAt;
    if (this.width === undefined) {
      shard.lists[slot] = state;
      return;
    }
    for (let i = 0; i < this.width; i++) shard.numbers[from + i] = state[i] as number;
  }

  remove(place: number): void {
    const shard = this.at(place);
    const slot = slotOf(place);
    const last = shard.keys.length - 1;
    const { stride, numbers } = { stride: this.stride, numbers: shard.numbers };
    shard.slots.delete(shard.keys[slot] as string);
    const moved = shard.keys.pop() as string;
    const rule = shard.rules.pop() as Rule;
    const list = this.width === undefined ? shard.lists.pop() : undefined;
    if (slot !== last) {
      shard.keys[slot] = moved;
      shard.rules[slot] = rule;
      if (list !== undefined) shard.lists[slot] = list;
      numbers.copyWithin(slot * stride, last * stride, (last + 1) * stride);
      shard.slots.set(moved, slot);
    }
    if (shard.numbers.length > SMALLEST * stride && last * stride * 4 < shard.numbers.length) {
      shard.numbers = numbers.slice(0, numbers.length / 2);
    }
    this.size--;
  }

  wholeAt(place: number): number {
    return this.at(place).numbers[slotOf(place) * this.stride + this.stride - 1] as number;
  }

  rule(place: number): Rule {
    return this.at(place).rules[slotOf(place)] as Rule;
  }

  key(place: number): string {
    return this.at(place).keys[slotOf(place)] as string;
  }

  /** Looks at the next `steps` keys in turn and forgets those that are whole. Returns how many it forgot. */
  sweep(now: number, steps: number): number {
    const before = this.size;
    for (let step = 0; step < steps; step++) {
      const shard = this.shards[this.cursorShard];
      if (shard === undefined || this.cursorSlot >= shard.keys.length) {
        this.cursorShard = (this.cursorShard + 1) % SHARDS;
        this.cursorSlot = 0;
        continue;
      }
      const place = this.cursorSlot * SHARDS + this.cursorShard;
      // A removal moves the last key here, which is looked at next.
      if (this.wholeAt(place) < now) this.remove(place);
      else this.cursorSlot++;
    }
    return before - this.size;
  }

  /** The place of a key chosen by two numbers from 0 up to 1, or -1 when the table is empty. */
  pick(random: number, within: number): number {
    const first = Math.floor(random * SHARDS);
    for (let step = 0; step < SHARDS; step++) {
      const number = (first + step) % SHARDS;
      const length = this.shards[number]?.keys.length ?? 0;
      if (length > 0) return Math.floor(within * length) * SHARDS + number;
    }
    return -1;
  }

  private at(place: number): Shard {
    return this.shards[place & (SHARDS - 1)] as Shard;
  }

  private append(key: string): number {
    const number = shardOf(key);
    const shard = (this.shards[number] ??= new Shard(this.stride));
    const slot = shard.keys.length;
    shard.keys.push(key);
    shard.slots.set(key, slot);
    if ((slot + 1) * this.stride > shard.numbers.length) {
      const grown = new Float64Array(shard.numbers.length * 2);
      grown.set(shard.numbers);
      shard.numbers = grown;
    }
    this.size++;
    return slot * SHARDS + number;
  }
}

function slotOf(place: number): number {
  return (place - (place & (SHARDS - 1))) / SHARDS;
}
