import type { Rule, State } from '../algorithm.ts';
import { type Shard, Table } from './table.ts';

/** Keys compared before one is forgotten. */
const SAMPLE = 16;

/** A look at a key costs little, but not nothing: half of one at each call, and four when a key was added. */
const SWEEP_STEPS = 32;
const SWEEP_AFTER = 64;
const NEW_KEY = 8;

/**
 * All keys of a memory store, by limit and algorithm, within a bound. There is no timer: what is whole again is
 * forgotten a few keys at a time, as calls come in, and when there are too many keys one of a sample is.
 */
export class Keyspace {
  /** Keys held. */
  size = 0;
  private readonly maxKeys: number;
  private readonly tables: Table[] = [];
  private readonly scratch: State = [0, 0, 0, 0, 0, 0];
  private unswept = 0;
  private turn = 0;

  constructor(maxKeys: number) {
    this.maxKeys = maxKeys;
  }

  /** The table of a limit under the rule's algorithm: under another one, its keys start fresh. */
  table({ policy, size }: Rule, name: string): Table {
    const { algorithm } = policy;
    let table = this.tables.find((each) => each.name === name && each.algorithm === algorithm);
    if (table === undefined) {
      table = new Table(name, algorithm, size);
      this.tables.push(table);
    }
    return table;
  }

  /** Counts a key that was added to a table. */
  added(table: Table): void {
    table.size++;
    this.size++;
    this.unswept += NEW_KEY;
  }

  /** Forgets a key of a limit, under every algorithm. */
  forget(name: string, key: string): void {
    for (const table of this.tables) {
      const shard = table.shard(key);
      const slot = table.name === name ? shard.find(key) : -1;
      if (slot !== -1) this.remove(table, shard, slot);
    }
  }

  /** Counts a call, and says whether it is time to tidy. */
  isUntidy(): boolean {
    return ++this.unswept >= SWEEP_AFTER || this.size > this.maxKeys;
  }

  /** Forgets what is whole, a little at a time, and makes room when there are too many keys. */
  tidy(now: number): void {
    if (this.unswept >= SWEEP_AFTER && this.tables.length > 0) {
      this.unswept = 0;
      this.turn = (this.turn + 1) % this.tables.length;
      this.sweep(this.tables[this.turn] as Table, now);
    }
    while (this.size > this.maxKeys) this.evict(now);
  }

  /** A table of few keys is looked through slowly: there is little to gain. */
  private sweep(table: Table, now: number): void {
    table.look(Math.min(SWEEP_STEPS, table.size), (shard, slot) => {
      const whole = this.resetAfter(shard, slot, now) < 0;
      if (whole) this.remove(table, shard, slot);
      return whole;
    });
  }

  /**
   * Forgets the key of a sample with the largest remaining share, of equals the one that is whole soonest. Keys that
   * are exhausted or hold slots go only when the sample has no other: a flood of new keys frees nobody.
   *
   * The sample is every so manieth key from a random one on, so that each is in it as likely as another.
   */
  private evict(now: number): void {
    let found: { readonly table: Table; readonly shard: Shard; readonly slot: number } | undefined;
    let most = -Infinity;
    let soonest = Infinity;
    const step = Math.max(1, this.size / SAMPLE);
    let next = Math.random() * step;
    for (const table of this.tables) {
      next = table.visit(next, step, (shard, slot) => {
        const spare = this.spare(shard, slot, now);
        if (spare < most) return;
        const resetAfter = this.resetAfter(shard, slot, now);
        if (spare === most && resetAfter >= soonest) return;
        most = spare;
        soonest = resetAfter;
        found = { table, shard, slot };
      });
    }
    if (found !== undefined) this.remove(found.table, found.shard, found.slot);
  }

  /** The remaining share of a key, from 0 to 1; below 0 for a key that must not be forgotten. */
  private spare(shard: Shard, slot: number, now: number): number {
    const rule = shard.rule(slot);
    if (rule.holdsSlots || rule.quota === 0) return -1;
    const state = shard.read(slot, this.scratch);
    // A list is judged as it stands, which is no more than it will be.
    if (rule.size !== undefined) rule.roll(state, now, rule.offset(shard.keys[slot] as string));
    const remaining = rule.remaining(state, now);
    return remaining === 0 ? -1 : remaining / rule.quota;
  }

  /** How long until a key is whole; below 0 when it has been for a while. */
  private resetAfter(shard: Shard, slot: number, now: number): number {
    const rule = shard.rule(slot);
    return rule.resetAfter(shard.read(slot, this.scratch), now) || -1;
  }

  private remove(table: Table, shard: Shard, slot: number): void {
    shard.remove(slot);
    table.size--;
    this.size--;
  }
}
