import type { Rule, State } from '../algorithm.ts';
import type { Charge } from '../store.ts';
import type { Keyspace } from './keyspace.ts';
import { Shard, Table } from './table.ts';

/** Stand for what a cell does not point at yet. */
const NO_TABLE = new Table('', '', 0);
const NO_SHARD = new Shard(0);
/** No shard's count of removals, so that a key that is not held is looked for again. */
const NOWHERE = -1;

/**
 * One charge being decided, and where its key stands. Reused from call to call: deciding is synchronous and calls nobody
 * back.
 */
export class Cell {
  /** Where a state of a fixed size is worked on. Fractions, so that V8 keeps the numbers unboxed. */
  readonly numbers: State = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
  state: State = this.numbers;
  now = 0.5;
  offset = 0;
  healed = false;
  wait = 0.5;
  banned = 0;
  delay = 0;
  shard: Shard = NO_SHARD;
  /** -1 for a key that is not held. */
  slot = -1;
  private table: Table = NO_TABLE;
  private rule: Rule | undefined;
  private key = '';
  private removed = NOWHERE;

  /** Whether it points at a charge's key: a hot key stands where it stood the last time, unless another was removed. */
  isAt(charge: Charge): boolean {
    return (
      this.key === charge.key &&
      this.rule === charge.rule &&
      this.removed === this.shard.removed &&
      this.table.name === charge.name
    );
  }

  /** Finds a charge's key. */
  seek({ name, key, rule }: Charge, keys: Keyspace): void {
    if (this.rule !== rule || this.table.name !== name) {
      this.table = keys.table(rule, name);
      this.rule = rule;
    }
    this.key = key;
    this.shard = this.table.shard(key);
    this.slot = this.shard.find(key);
    this.removed = this.slot === -1 ? NOWHERE : this.shard.removed;
  }

  /** Adds the key, which was not held when it was looked for. */
  add(keys: Keyspace): void {
    const { shard, key } = this;
    this.slot = shard.find(key);
    this.removed = shard.removed;
    // Another charge of the same decision may be of the same key.
    if (this.slot !== -1) return;
    this.slot = shard.append(key);
    keys.added(this.table);
  }
}
