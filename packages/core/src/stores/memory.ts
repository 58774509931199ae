import { ChargeAnswer, REFUSED, SingleAnswer, TAKEN, verdictFrom } from '../answer.ts';
import type { Verdict } from '../verdict.ts';
import { show, TollgateConfigError } from '../errors.ts';
import { unknownOption } from '../policy.ts';
import type { Answer, Charge, Correction, Mode, Store } from '../store.ts';
import { checkedClock, steadyClock } from './clock.ts';
import { Bans } from './bans.ts';
import { Cell } from './cell.ts';
import { Keyspace } from './keyspace.ts';

export interface MemoryStoreOptions {
  /** Keys held in all, over all limits; default 500,000. When full, the key with the most to spare is forgotten. */
  readonly maxKeys?: number;
  /** Integer microseconds since the epoch; the default is the system's clock, which here never steps back. */
  readonly clock?: () => number;
}

const MOST_CHARGES = 16;

/** State in this process. Every call answers synchronously. */
export class MemoryStore implements Store<false> {
  readonly async = false;
  private readonly clock: () => number;
  private readonly keys: Keyspace;
  private readonly bans: Bans;
  private readonly cells: readonly Cell[];
  /** Charges and their slots are named by negative numbers, which no expiry is. */
  private nextCharge = -1;

  constructor(options: MemoryStoreOptions = {}) {
    const { maxKeys = 500_000, clock, ...rest } = options;
    for (const option of Object.keys(rest)) {
      throw new TollgateConfigError(option, unknownOption(option, ['maxKeys', 'clock']));
    }
    if (!Number.isSafeInteger(maxKeys) || maxKeys < 1) {
      throw new TollgateConfigError(
        'maxKeys',
        `expected a whole number of 1 or more, got ${show(maxKeys)}`,
      );
    }
    this.clock = clock === undefined ? steadyClock() : checkedClock(clock);
    this.keys = new Keyspace(maxKeys);
    this.bans = new Bans(maxKeys);
    this.cells = Array.from({ length: MOST_CHARGES }, () => new Cell());
  }

  /** Keys held now, whole ones that are not yet forgotten included. */
  get size(): number {
    return this.keys.size;
  }

  decide(charges: readonly Charge[], mode: Mode): Answer {
    const only = charges.length === 1 ? charges[0] : undefined;
    return only !== undefined && only.rule.size !== undefined && this.bans.isEmpty
      ? this.decideOne(only, mode)
      : this.decideAll(charges, mode, this.clock());
  }

  correct(corrections: readonly Correction[]): void {
    const at = this.clock();
    for (const { charge, units } of corrections) {
      const { rule, receipt } = charge;
      const cell = this.open(0, charge, at);
      if (units < 0) {
        if (cell.slot === -1 || receipt === undefined) continue;
        const given = rule.giveBack(cell.state, -units, cell.now, receipt);
        // What is not given back leaves no trace of having been looked for, perhaps under an old policy.
        if (!given && !cell.healed) continue;
      } else {
        // A rule that refuses debt takes what still fits.
        const extra = rule.overdraws
          ? units
          : Math.min(units, rule.remaining(cell.state, cell.now));
        if (extra === 0) continue;
        rule.add(cell.state, extra, cell.now, this.nextCharge--, cell.offset);
      }
      this.write(cell, charge);
    }
    this.keys.tidy(at);
  }

  refund(charges: readonly Charge[]): void {
    const at = this.clock();
    for (const charge of charges) {
      const cell = this.open(0, charge, at);
      if (cell.slot === -1) continue;
      charge.rule.refund(cell.state, charge.cost, cell.now);
      this.write(cell, charge);
    }
  }

  renew(charges: readonly Charge[]): boolean[] {
    const at = this.clock();
    return charges.map((charge) => {
      const slot = charge.receipt?.[0];
      const cell = this.open(0, charge, at);
      if (slot === undefined || !cell.state.includes(slot)) return false;
      charge.rule.add(cell.state, 1, cell.now, slot, 0);
      this.write(cell, charge);
      return true;
    });
  }

  ban(keys: readonly Pick<Charge, 'name' | 'key'>[], length: number): void {
    const at = this.clock();
    for (const key of keys) this.bans.impose(key, length, at);
  }

  unban(keys: readonly Pick<Charge, 'name' | 'key'>[]): void {
    for (const key of keys) this.bans.lift(key);
  }

  reset(keys: readonly Pick<Charge, 'name' | 'key'>[]): void {
    for (const { name, key } of keys) this.keys.forget(name, key);
    this.unban(keys);
  }

  /** There is nothing to free: a later limiter on this store goes on from the same state. */
  close(): void {}

  /** What `decideAll` does, for the commonest decision: a single charge that copies no list. */
  private decideOne(charge: Charge, mode: Mode): Answer {
    const at = this.clock();
    const { rule, cost } = charge;
    const cell = this.cells[0] as Cell;
    if (!cell.isAt(charge)) cell.seek(charge, this.keys);
    const state = cell.shard.read(cell.slot, cell.numbers);
    const offset = rule.spreads ? rule.offset(charge.key) : 0;
    const healed = rule.roll(state, at, offset);
    const forced = mode === 'charge' && rule.overdraws;
    const wait = forced ? 0 : rule.wait(state, cost, at);
    // From now on refusals are counted, which is not done here.
    if (wait > 0 && charge.ban !== undefined) return this.decideAll([charge], mode, at);
    const delay = wait === 0 && rule.queues && !charge.shadow ? rule.delay(state, at) : 0;
    const charges = wait === 0 && mode !== 'peek' && cost > 0;
    const after = charges ? rule.add(state, cost, at, this.nextCharge--, offset) : state.slice();
    if (charges) charge.receipt = after;
    if (charges || (healed && mode !== 'peek')) {
      if (cell.slot === -1) cell.add(this.keys);
      cell.shard.write(cell.slot, rule, state);
    }
    if (this.keys.isUntidy()) this.keys.tidy(at);
    if (delay > 0 || charge.shadow) {
      return new SingleAnswer(charge, after, true, wait === 0, delay, at, 0);
    }
    return new ChargeAnswer(charge, after, at, wait === 0 ? TAKEN : REFUSED);
  }

  private decideAll(charges: readonly Charge[], mode: Mode, at: number): Answer {
    let admitted = true;
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i] as Charge;
      const { wait, banned } = this.judge(i, charge, at, mode);
      if ((wait > 0 || banned > 0) && !charge.shadow) admitted = false;
    }
    let delay = 0;
    const verdicts: Verdict[] = [];
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i] as Charge;
      const cell = this.cells[i] as Cell;
      this.conclude(cell, charge, mode, admitted);
      verdicts.push(verdictFrom(charge, cell.state, cell.now, cell.wait, cell.banned));
      delay = Math.max(delay, cell.delay);
    }
    if (this.keys.isUntidy()) this.keys.tidy(at);
    return { admitted, verdicts, at, delay };
  }

  /** The first pass: what a charge has to wait for. */
  private judge(index: number, charge: Charge, at: number, mode: Mode): Cell {
    const { rule } = charge;
    const cell = this.open(index, charge, at);
    const forced = mode === 'charge' && rule.overdraws;
    cell.wait = forced ? 0 : rule.wait(cell.state, charge.cost, cell.now);
    const asks = mode !== 'charge' && !this.bans.isEmpty;
    cell.banned = asks ? this.bans.left(charge, at, mode !== 'peek') : 0;
    return cell;
  }

  /** The second pass: charges what is to be charged, and keeps a clock's healing even where nothing is. */
  private conclude(cell: Cell, charge: Charge, mode: Mode, admitted: boolean): void {
    const { rule } = charge;
    cell.delay = 0;
    if (admitted && cell.wait === 0 && cell.banned === 0) {
      if (rule.queues && !charge.shadow) cell.delay = rule.delay(cell.state, cell.now);
      if (mode !== 'peek' && charge.cost > 0) {
        charge.receipt = rule.add(
          cell.state,
          charge.cost,
          cell.now,
          this.nextCharge--,
          cell.offset,
        );
        return this.write(cell, charge);
      }
    }
    if (cell.healed && mode !== 'peek') this.write(cell, charge);
    const strikes = mode === 'consume' && cell.wait > 0 && cell.banned === 0 && !charge.shadow;
    if (strikes && charge.ban !== undefined) {
      this.bans.strike(charge, charge.ban, cell.now);
      cell.banned = this.bans.left(charge, cell.now, true);
    }
  }

  /** Reads a copy of a charge's state into a cell and rolls it to `at`. */
  private open(index: number, charge: Charge, at: number): Cell {
    const { key, rule } = charge;
    const cell = this.cells[index] as Cell;
    if (!cell.isAt(charge)) cell.seek(charge, this.keys);
    cell.state = cell.shard.read(cell.slot, cell.numbers);
    if (rule.size === undefined) cell.state = cell.state.slice();
    cell.now = at;
    cell.offset = rule.spreads ? rule.offset(key) : 0;
    cell.healed = rule.roll(cell.state, at, cell.offset);
    return cell;
  }

  private write(cell: Cell, { rule }: Charge): void {
    if (cell.slot === -1) cell.add(this.keys);
    cell.shard.write(cell.slot, rule, cell.state);
  }
}

/**
 * A store in this process's memory. Each process has its own: behind a load balancer, limits multiply by the number
 * of processes.
 *
 * @throws TollgateConfigError when `maxKeys` is not a whole number of 1 or more, or `clock` not a function.
 */
export function memoryStore(options?: MemoryStoreOptions): MemoryStore {
  return new MemoryStore(options);
}
