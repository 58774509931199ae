import { nextAfter, type Receipt, type State } from '../algorithm.ts';
import type { Reason, Verdict } from '../decision.ts';
import { show, TollgateConfigError } from '../errors.ts';
import type { Answer, Charge, Correction, Mode, Store } from '../store.ts';
import { Table } from './table.ts';

export interface MemoryStoreOptions {
  /** Keys held in all, over all limits; default 500,000. When full, the key with the most to spare is forgotten. */
  readonly maxKeys?: number;
  /** Integer microseconds since the epoch; the default is the system's clock, which here never steps back. */
  readonly clock?: () => number;
}

/** One charge being decided. Reused from call to call: deciding is synchronous and calls nobody back. */
interface Cell {
  readonly numbers: State;
  table: Table | undefined;
  place: number;
  state: State;
  now: number;
  healed: boolean;
  wait: number;
}

const MOST_CHARGES = 16;
const SAMPLE = 16;
const SWEEP_EVERY = 16;
const SWEEP_STEPS = 48;

/** The system's clock, in µs, except that a step back is not taken: time goes on from where it was. */
function steadyClock(): () => number {
  let latest = 0;
  let ahead = 0;
  return () => {
    let now = Date.now() * 1_000 + ahead;
    if (now < latest) {
      ahead += latest - now;
      now = latest;
    }
    latest = now;
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
  private readonly tables = new Map<string, Map<string, Table>>();
  private readonly allTables: Table[] = [];
  private readonly cells: readonly Cell[];
  private calls = 0;
  private swept = 0;
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
    this.cells = Array.from({ length: MOST_CHARGES }, () => ({
      numbers: [0, 0, 0, 0, 0],
      table: undefined,
      place: -1,
      state: [],
      now: 0,
      healed: false,
      wait: 0,
    }));
  }

  /** Keys held now, whole ones that are not yet forgotten included. */
  get size(): number {
    let size = 0;
    for (const table of this.allTables) size += table.size;
    return size;
  }

  decide(charges: readonly Charge[], mode: Mode): Answer {
    const at = this.clock();
    let admitted = true;
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i] as Charge;
      const cell = this.open(i, charge, at, mode === 'peek');
      cell.wait =
        mode === 'charge' && charge.rule.overdraws
          ? 0
          : charge.rule.wait(cell.state, charge.cost, cell.now);
      if (cell.wait > 0 && !charge.shadow) admitted = false;
    }
    const answer: Answer = { at, delay: 0, verdicts: [], receipts: [] };
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i] as Charge;
      const cell = this.cells[i] as Cell;
      const { rule } = charge;
      let receipt: Receipt | undefined;
      if (admitted && cell.wait === 0) {
        if (!charge.shadow) answer.delay = Math.max(answer.delay, rule.delay(cell.state, cell.now));
        if (mode !== 'peek' && charge.cost > 0) {
          receipt = rule.add(cell.state, charge.cost, cell.now, this.nextSlot--);
        }
      }
      const resetAfter = rule.resetAfter(cell.state, cell.now);
      if (receipt !== undefined || (cell.healed && mode !== 'peek')) {
        (cell.table as Table).write(cell.place, charge.key, rule, cell.state, at + resetAfter);
      }
      answer.verdicts.push(verdict(charge, cell, resetAfter));
      answer.receipts.push(receipt);
    }
    this.tidy(at);
    return answer;
  }

  correct(corrections: readonly Correction[]): void {
    const at = this.clock();
    for (const { charge, receipt, units } of corrections) {
      const { rule } = charge;
      const cell = this.open(0, charge, at, false);
      if (units < 0) {
        if (cell.place === -1) continue;
        rule.giveBack(cell.state, -units, cell.now, receipt);
      } else {
        // A rule that refuses debt takes what still fits.
        const extra = rule.overdraws ? units : Math.min(units, rule.remaining(cell.state, cell.now));
        if (extra > 0) rule.add(cell.state, extra, cell.now, 0);
      }
      this.keep(charge, cell, at);
    }
    this.tidy(at);
  }

  refund(charges: readonly Charge[]): void {
    const at = this.clock();
    for (const charge of charges) {
      const cell = this.open(0, charge, at, false);
      if (cell.place === -1) continue;
      charge.rule.refund(cell.state, charge.cost, cell.now);
      this.keep(charge, cell, at);
    }
  }

  renew(corrections: readonly Correction[]): boolean[] {
    const at = this.clock();
    return corrections.map(({ charge, receipt }) => {
      const slot = receipt[0] as number;
      const cell = this.open(0, charge, at, false);
      if (!cell.state.includes(slot)) return false;
      charge.rule.add(cell.state, 1, cell.now, slot);
      this.keep(charge, cell, at);
      return true;
    });
  }

  reset(charges: readonly Pick<Charge, 'name' | 'key'>[]): void {
    for (const { name, key } of charges) {
      for (const tables of this.tables.values()) {
        const table = tables.get(name);
        const place = table?.find(key) ?? -1;
        if (place !== -1) table?.remove(place);
      }
    }
  }

  /** There is nothing to free: a later limiter on this store goes on from the same state. */
  close(): void {}

  /** Reads a charge's state into a cell and rolls it to `at`. A peek must not touch a list that is kept. */
  private open(index: number, charge: Charge, at: number, copy: boolean): Cell {
    const { name, key, rule } = charge;
    const cell = this.cells[index] as Cell;
    const table = this.tableOf(rule.policy.algorithm, name, rule.size);
    cell.table = table;
    cell.place = table.find(key);
    cell.state = table.read(cell.place, cell.numbers);
    if (copy && rule.size === undefined) cell.state = cell.state.slice();
    cell.now = at + rule.offset(key);
    cell.healed = rule.roll(cell.state, cell.now);
    return cell;
  }

  private keep({ key, rule }: Charge, cell: Cell, at: number): void {
    const wholeAt = at + rule.resetAfter(cell.state, cell.now);
    (cell.table as Table).write(cell.place, key, rule, cell.state, wholeAt);
  }

  private tableOf(algorithm: string, name: string, width: number | undefined): Table {
    let tables = this.tables.get(algorithm);
    if (tables === undefined) this.tables.set(algorithm, (tables = new Map()));
    let table = tables.get(name);
    if (table === undefined) {
      table = new Table(width);
      tables.set(name, table);
      this.allTables.push(table);
    }
    return table;
  }

  /** Forgets what is whole, a little at a time, and makes room when there are too many keys. */
  private tidy(now: number): void {
    if (++this.calls % SWEEP_EVERY === 0) {
      this.allTables[this.swept++ % this.allTables.length]?.sweep(now, SWEEP_STEPS);
    }
    while (this.size > this.maxKeys) this.evict(now);
  }

  /**
   * Forgets the key of a sample with the largest remaining share, of equals the one that is whole soonest. Keys that
   * are exhausted or hold slots go only when the sample has no other: a flood of new keys frees nobody.
   */
  private evict(now: number): void {
    let victim = -1;
    let victimTable: Table | undefined;
    let most = -Infinity;
    let soonest = Infinity;
    for (let i = 0; i < SAMPLE; i++) {
      const table = this.pickTable();
      const place = table.pick(Math.random(), Math.random());
      const wholeAt = table.wholeAt(place);
      const spare = wholeAt < now ? 2 : this.spare(table, place, now);
      if (spare > most || (spare === most && wholeAt < soonest)) {
        victim = place;
        victimTable = table;
        most = spare;
        soonest = wholeAt;
      }
    }
    victimTable?.remove(victim);
  }

  /** A table chosen by its share of all keys; there is at least one key. */
  private pickTable(): Table {
    let index = Math.floor(Math.random() * this.size);
    for (const table of this.allTables) {
      if (index < table.size) return table;
      index -= table.size;
    }
    return this.allTables[0] as Table;
  }

  /** The remaining share of a key, from 0 to 1; below 0 for a key that must not be forgotten. */
  private spare(table: Table, place: number, now: number): number {
    const rule = table.rule(place);
    if (rule.holdsSlots || rule.quota === 0) return -1;
    const scratch = this.cells[0]?.numbers as State;
    const state = table.read(place, scratch);
    const own = now + rule.offset(table.key(place));
    if (state === scratch) rule.roll(state, own);
    const remaining = rule.remaining(state, own);
    return remaining === 0 ? -1 : remaining / rule.quota;
  }
}

function verdict(charge: Charge, cell: Cell, resetAfter: number): Verdict {
  const { name, key, rule, cost, shadow } = charge;
  const allowed = cell.wait === 0;
  return {
    name,
    key,
    policy: rule.policy,
    allowed,
    shadow,
    reason: (allowed ? 'ok' : rule.refusal) as Reason,
    source: 'store',
    cost,
    limit: rule.quota,
    remaining: rule.remaining(cell.state, cell.now),
    nextAfterMs: nextAfter(rule, cell.state, cell.now) / 1_000,
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
