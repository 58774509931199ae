import type { Rule, State } from '../algorithm.ts';
import type { Verdict } from '../decision.ts';
import { show, TollgateConfigError } from '../errors.ts';
import type { Answer, Charge, Correction, Mode, Store } from '../store.ts';
import { Shard, Table } from './table.ts';

export interface MemoryStoreOptions {
  /** Keys held in all, over all limits; default 500,000. When full, the key with the most to spare is forgotten. */
  readonly maxKeys?: number;
  /** Integer microseconds since the epoch; the default is the system's clock, which here never steps back. */
  readonly clock?: () => number;
}

/** One charge being decided. Reused from call to call: deciding is synchronous and calls nobody back. */
class Cell {
  readonly numbers: State = [0.5, 0, 0, 0, 0];
  state: State = this.numbers;
  rule: Rule | undefined;
  table: Table | undefined;
  shard: Shard = NOWHERE;
  slot = -1;
  now = 0;
  healed = false;
  wait = 0;
  delay = 0;
}

const NOWHERE = new Shard(0);
const MOST_CHARGES = 16;
const SAMPLE = 16;
/** A key looked at costs little, but not nothing: half a look at each call, four when a key was added. */
const SWEEP_STEPS = 32;
const SWEEP_AFTER = 64;
const NEW_KEY = 8;

const LATEST = 0;
const AHEAD = 1;

/** The system's clock, in µs, except that a step back is not taken: time goes on from where it was. */
function steadyClock(): () => number {
  // Numbers this large would be allocated anew at every write anywhere but in a typed array.
  const time = new Float64Array(2);
  return () => {
    let now = Date.now() * 1_000 + (time[AHEAD] as number);
    const latest = time[LATEST] as number;
    if (now < latest) {
      time[AHEAD] = latest - now + (time[AHEAD] as number);
      now = latest;
    }
    time[LATEST] = now;
    return now;
  };
}

function checkedClock(clock: () => number): () => number {
  return () => {
    const now = clock();
    if (Number.isSafeInteger(now) && now >= 0) return now;
    throw new TollgateConfigError(
      'clock',
      `expected integer microseconds since the epoch, got ${show(now)}`,
    );
  };
}

/**
 * State in this process. Every call answers synchronously. There is no timer: what is whole again is forgotten a few
 * keys at a time, as calls come in.
 */
export class MemoryStore implements Store<false> {
  readonly async = false;
  private readonly maxKeys: number;
  private readonly clock: () => number;
  private readonly tables: Table[] = [];
  private readonly cells: readonly Cell[];
  private unswept = 0;
  private turn = 0;
  private held = 0;
  /** Slots are named by negative numbers, which no expiry is. */
  private nextSlot = -1;

  constructor({ maxKeys = 500_000, clock }: MemoryStoreOptions = {}) {
    if (!Number.isSafeInteger(maxKeys) || maxKeys < 1) {
      throw new TollgateConfigError(
        'maxKeys',
        `expected a whole number of 1 or more, got ${show(maxKeys)}`,
      );
    }
    if (clock !== undefined && typeof clock !== 'function') {
      throw new TollgateConfigError('clock', `expected a function, got ${show(clock)}`);
    }
    this.maxKeys = maxKeys;
    this.clock = clock === undefined ? steadyClock() : checkedClock(clock);
    this.cells = Array.from({ length: MOST_CHARGES }, () => new Cell());
  }

  /** Keys held now, whole ones that are not yet forgotten included. */
  get size(): number {
    return this.held;
  }

  decide(charges: readonly Charge[], mode: Mode): Answer {
    const at = this.clock();
    const only = charges.length === 1 ? charges[0] : undefined;
    if (only !== undefined) {
      const cell = this.judge(0, only, at, mode);
      const admitted = cell.wait === 0 || only.shadow;
      const verdicts = [this.conclude(cell, only, at, mode, admitted)];
      const { delay } = cell;
      this.tidy(at);
      return { verdicts, at, delay };
    }
    let admitted = true;
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i] as Charge;
      if (this.judge(i, charge, at, mode).wait > 0 && !charge.shadow) admitted = false;
    }
    let delay = 0;
    const verdicts: Verdict[] = [];
    for (let i = 0; i < charges.length; i++) {
      const cell = this.cells[i] as Cell;
      verdicts.push(this.conclude(cell, charges[i] as Charge, at, mode, admitted));
      delay = Math.max(delay, cell.delay);
    }
    this.tidy(at);
    return { verdicts, at, delay };
  }

  correct(corrections: readonly Correction[]): void {
    const at = this.clock();
    for (const { charge, units } of corrections) {
      const { rule, receipt } = charge;
      const cell = this.open(0, charge, at, false);
      if (units < 0) {
        if (cell.slot === -1 || receipt === undefined) continue;
        rule.giveBack(cell.state, -units, cell.now, receipt);
      } else {
        // A rule that refuses debt takes what still fits.
        const extra = rule.overdraws
          ? units
          : Math.min(units, rule.remaining(cell.state, cell.now));
        if (extra === 0) continue;
        rule.add(cell.state, extra, cell.now, 0);
      }
      this.write(cell, charge, at + rule.resetAfter(cell.state, cell.now));
    }
    this.tidy(at);
  }

  refund(charges: readonly Charge[]): void {
    const at = this.clock();
    for (const charge of charges) {
      const { rule, cost } = charge;
      const cell = this.open(0, charge, at, false);
      if (cell.slot === -1) continue;
      rule.refund(cell.state, cost, cell.now);
      this.write(cell, charge, at + rule.resetAfter(cell.state, cell.now));
    }
  }

  renew(charges: readonly Charge[]): boolean[] {
    const at = this.clock();
    return charges.map((charge) => {
      const { rule } = charge;
      const slot = charge.receipt?.[0];
      const cell = this.open(0, charge, at, false);
      if (slot === undefined || !cell.state.includes(slot)) return false;
      rule.add(cell.state, 1, cell.now, slot);
      this.write(cell, charge, at + rule.resetAfter(cell.state, cell.now));
      return true;
    });
  }

  reset(keys: readonly Pick<Charge, 'name' | 'key'>[]): void {
    for (const { name, key } of keys) {
      for (const table of this.tables) {
        if (table.name !== name) continue;
        const shard = table.shard(key);
        const slot = shard.find(key);
        if (slot === -1) continue;
        shard.remove(slot);
        this.held--;
      }
    }
  }

  /** There is nothing to free: a later limiter on this store goes on from the same state. */
  close(): void {}

  /** The first pass: what a charge has to wait for. */
  private judge(index: number, charge: Charge, at: number, mode: Mode): Cell {
    const { rule } = charge;
    const cell = this.open(index, charge, at, mode === 'peek');
    const forced = mode === 'charge' && rule.overdraws;
    cell.wait = forced ? 0 : rule.wait(cell.state, charge.cost, cell.now);
    return cell;
  }

  /** The second pass: charges what is to be charged, and says how the key stands. */
  private conclude(cell: Cell, charge: Charge, at: number, mode: Mode, admitted: boolean): Verdict {
    const { rule } = charge;
    cell.delay = 0;
    if (admitted && cell.wait === 0) {
      if (!charge.shadow) cell.delay = rule.delay(cell.state, cell.now);
      if (mode !== 'peek' && charge.cost > 0) {
        charge.receipt = rule.add(cell.state, charge.cost, cell.now, this.nextSlot--);
      }
    }
    const resetAfter = rule.resetAfter(cell.state, cell.now);
    if (charge.receipt !== undefined || (cell.healed && mode !== 'peek')) {
      this.write(cell, charge, at + resetAfter);
    }
    return verdict(charge, cell, resetAfter);
  }

  /** Reads a charge's state into a cell and rolls it to `at`. A peek must not touch a list that is kept. */
  private open(index: number, charge: Charge, at: number, copy: boolean): Cell {
    const { name, key, rule } = charge;
    const cell = this.cells[index] as Cell;
    let { table } = cell;
    if (table === undefined || cell.rule !== rule || table.name !== name) {
      table = this.tableOf(rule, name);
      cell.table = table;
      cell.rule = rule;
    }
    cell.shard = table.shard(key);
    cell.slot = cell.shard.find(key);
    cell.state = cell.shard.read(cell.slot, cell.numbers);
    if (copy && rule.size === undefined) cell.state = cell.state.slice();
    cell.now = at + rule.offset(key);
    cell.healed = rule.roll(cell.state, cell.now);
    return cell;
  }

  private write({ shard, slot, state }: Cell, { key, rule }: Charge, wholeAt: number): void {
    shard.write(slot, key, rule, state, wholeAt);
    if (slot === -1) {
      this.held++;
      this.unswept += NEW_KEY;
    }
  }

  /** The table of a limit under the rule's algorithm: under another one, its keys start fresh. */
  private tableOf({ policy, size }: Rule, name: string): Table {
    const { algorithm } = policy;
    let table = this.tables.find((each) => each.name === name && each.algorithm === algorithm);
    if (table === undefined) {
      table = new Table(name, algorithm, size);
      this.tables.push(table);
    }
    return table;
  }

  /** Forgets what is whole, a little at a time, and makes room when there are too many keys. */
  private tidy(now: number): void {
    if (++this.unswept >= SWEEP_AFTER && this.tables.length > 0) {
      this.unswept = 0;
      this.turn = (this.turn + 1) % this.tables.length;
      this.held -= this.tables[this.turn]?.sweep(now, SWEEP_STEPS) ?? 0;
    }
    while (this.held > this.maxKeys) this.evict(now);
  }

  /**
   * Forgets the key of a sample with the largest remaining share, of equals the one that is whole soonest. Keys that
   * are exhausted or hold slots go only when the sample has no other: a flood of new keys frees nobody.
   */
  private evict(now: number): void {
    let victim: { shard: Shard; slot: number } | undefined;
    let most = -Infinity;
    let soonest = Infinity;
    for (let i = 0; i < SAMPLE; i++) {
      const shard = this.pickShard();
      const slot = Math.floor(Math.random() * shard.keys.length);
      const wholeAt = shard.wholeAt(slot);
      const spare = wholeAt < now ? 2 : this.spare(shard, slot, now);
      if (spare > most || (spare === most && wholeAt < soonest)) {
        victim = { shard, slot };
        most = spare;
        soonest = wholeAt;
      }
    }
    victim?.shard.remove(victim.slot);
    this.held--;
  }

  /** A shard that holds keys, of a table chosen by its share of all keys. */
  private pickShard(): Shard {
    let index = Math.floor(Math.random() * this.held);
    for (const table of this.tables) {
      const { size } = table;
      const shard = index < size ? table.pick(Math.random()) : undefined;
      if (shard !== undefined) return shard;
      index -= size;
    }
    return NOWHERE;
  }

  /** The remaining share of a key, from 0 to 1; below 0 for a key that must not be forgotten. */
  private spare(shard: Shard, slot: number, now: number): number {
    const rule = shard.rule(slot);
    if (rule.holdsSlots || rule.quota === 0) return -1;
    const scratch = (this.cells[0] as Cell).numbers;
    const state = shard.read(slot, scratch);
    const own = now + rule.offset(shard.keys[slot] as string);
    // A list is judged as it stands, which is no more than it will be.
    if (state === scratch) rule.roll(state, own);
    const remaining = rule.remaining(state, own);
    return remaining === 0 ? -1 : remaining / rule.quota;
  }
}

function verdict(charge: Charge, cell: Cell, resetAfter: number): Verdict {
  const { rule } = charge;
  const allowed = cell.wait === 0;
  const remaining = rule.remaining(cell.state, cell.now);
  return {
    name: charge.name,
    key: charge.key,
    policy: rule.policy,
    allowed,
    shadow: charge.shadow,
    reason: allowed ? 'ok' : rule.refusal,
    source: 'store',
    cost: charge.cost,
    limit: rule.quota,
    remaining,
    nextAfterMs: resetAfter === 0 ? 0 : rule.wait(cell.state, remaining + 1, cell.now) / 1_000,
    resetAfterMs: resetAfter / 1_000,
    retryAfterMs: cell.wait / 1_000,
  };
}

/**
 * A store in this process's memory. Each process has its own: behind a load balancer, limits multiply by the number
 * of processes.
 *
 * @throws TollgateConfigError when `maxKeys` is not a whole number of 1 or more.
 */
export function memoryStore(options?: MemoryStoreOptions): MemoryStore {
  return new MemoryStore(options);
}
