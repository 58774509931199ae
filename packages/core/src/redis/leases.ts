import { performance } from 'node:perf_hooks';
import { type LeaseEvent, leases as leaseEvents } from '../events.ts';
import type { LeaseRule, Leasing } from '../lease.ts';
import type { Answer, Charge, Correction } from '../store.ts';
import type { Told } from './grant.ts';
import type { Guard } from './guard.ts';
import type { Items } from './items.ts';
import type { KeyNames } from './keys.ts';
import { type Ask, type Draw, giveBack, Lease } from './lease.ts';
import { LeaseAnswer, LeasedCharge } from './lease-answer.ts';
import { debtItem, grantItem, returnItem } from './lease-items.ts';
import { type Entry, LeaseTable, type Waiter } from './lease-table.ts';
import type { Queue } from './slot-queues.ts';

/** Runs of equal costs that one call asks for at most. */
const MOST_COSTS = 64;

type Subject = Pick<Charge, 'name' | 'key'>;

/** What leases ask the store through. */
export interface LeaseOffice {
  readonly queue: Queue;
  readonly items: Items;
  readonly names: KeyNames;
  readonly guard: Guard;
  /** Integer µs that never step back. */
  readonly clock: () => number;
}

/**
 * The leases of this process: each asks the store for units by one call at a time, which is shared by all who wait for
 * it, and those whom it does not cover are decided by the next, in order.
 */
export class Leases {
  private readonly office: LeaseOffice;
  private readonly table: LeaseTable = new LeaseTable(
    (entry) => void this.end(entry),
    (entry) => this.consult(entry, this.now()),
  );
  /** Names this process among those that hold leases of a key. */
  private readonly holder = Math.floor(Math.random() * 2 ** 48);

  /** Leases that are ended while others go on. */
  private readonly leaving = new Set<Promise<void>>();

  constructor(office: LeaseOffice) {
    this.office = office;
  }

  now(): number {
    return this.office.clock();
  }

  /** The lease of one of a call's charges, by a rule. */
  entryOf(terms: LeaseRule, charges: readonly Charge[], index: number, now: number): Entry {
    const { names } = this.office;
    const { name, key } = charges[index] as Charge;
    const id = names.isTagged ? (names.of(charges)[index] as string) : key;
    const known = this.table.find(terms, id);
    if (known !== undefined) return known;
    const storeKey = names.of(charges)[index] as string;
    const overdraft = this.table.makeRoom() ? terms.overdraft : 0;
    return this.table.add(new Lease({ name, key, storeKey }, terms, now, overdraft), id);
  }

  /** Whether the store is known to be out. */
  get isOut(): boolean {
    return this.office.guard.refusal !== undefined;
  }

  /** Takes a charge's units; undefined when the store has to be asked. Nobody overtakes those who wait. */
  take(entry: Entry, charge: Charge, now: number): LeasedCharge | undefined {
    const { lease } = entry;
    entry.used = true;
    const taken = entry.waiting.length > 0 ? 'short' : lease.take(charge.cost, now);
    if (taken === 'short') return undefined;
    if (taken !== 'refused') charge.receipt = taken;
    return new LeasedCharge(charge, lease, taken !== 'refused', now);
  }

  /** Gives back what charges took of their leases. */
  untake(charges: readonly Charge[], now: number): void {
    for (const charge of charges) {
      const { receipt, cost } = charge;
      if (receipt !== undefined) void this.tellStore(giveBack(receipt, cost, now) ?? []);
      charge.receipt = undefined;
    }
  }

  /** Asks for more where it is time to. */
  renew(entry: Entry, now: number): void {
    if (entry.lease.isLow) this.consult(entry, now);
  }

  /** Asks the store how a key stands, and for as much as would be of use. */
  consult(entry: Entry, now: number): void {
    const { lease } = entry;
    if (!lease.isAsking && !entry.scheduled && !this.isOut) this.send(entry, now);
  }

  /** Waits for the key's next call, which all that are made in one go share. */
  join(entry: Entry, charge: Charge): Promise<Answer> {
    return new Promise((resolve, reject) => {
      entry.waiting.push({ charge, madeAt: performance.now(), resolve, reject });
      if (entry.scheduled || entry.lease.isAsking) return;
      entry.scheduled = true;
      queueMicrotask(() => {
        entry.scheduled = false;
        if (!entry.lease.isAsking) this.send(entry, this.now());
      });
    });
  }

  private send(entry: Entry, now: number): void {
    const { lease } = entry;
    const { queue, items, names } = this.office;
    const { waiters, costs } = firstOf(entry);
    const ask = lease.ask(costs, now);
    if (ask === undefined) return;
    for (const { units } of ask.back) tell(lease, 'expired', units);
    const madeAt = waiters.reduce((least, each) => Math.min(least, each.madeAt), Infinity);
    const holder = { id: this.holder, storeKey: names.holdersOf(lease.of.storeKey) };
    const item = grantItem(items, lease, ask, holder);
    const flight = queue.run(item, madeAt === Infinity ? performance.now() : madeAt).then(
      (told) => this.arrive(entry, ask, waiters, told),
      (error: unknown) => this.fail(entry, waiters, error),
    );
    entry.flight = flight;
  }

  private arrive(entry: Entry, ask: Ask, waiters: readonly Waiter[], told: Told): void {
    const { lease } = entry;
    const now = this.now();
    const { times, receipt } = lease.granted(ask, told, now);
    if (told.units > 0) tell(lease, 'granted', told.units);
    else tell(lease, 'denied', unitsOf(ask));
    const costs = ask.owed > 0 ? ask.costs.slice(1) : ask.costs;
    let next = 0;
    for (const [index, [count]] of costs.entries()) {
      for (let i = 0; i < count; i++) {
        const { charge, resolve } = waiters[next++] as Waiter;
        const allowed = i < (times[index] as number);
        if (allowed) charge.receipt = receipt;
        resolve(new LeaseAnswer([new LeasedCharge(charge, lease, allowed, now)]));
      }
    }
    this.serve(entry, now);
  }

  /** Decides those who came while a call was under way, in order, up to the first that needs another. */
  private serve(entry: Entry, now: number): void {
    const { waiting } = entry;
    entry.waiting = [];
    for (const [index, { charge, resolve }] of waiting.entries()) {
      const taken = this.take(entry, charge, now);
      if (taken === undefined) {
        entry.waiting = waiting.slice(index);
        return this.send(entry, now);
      }
      resolve(new LeaseAnswer([taken]));
    }
    this.renew(entry, now);
  }

  /** A background call that fails is nobody's: what it failed with shows in the store's health. */
  private fail(entry: Entry, waiters: readonly Waiter[], error: unknown): void {
    entry.lease.lost();
    for (const { reject } of waiters) reject(error);
    const { refusal } = this.office.guard;
    if (refusal === undefined && entry.waiting.length > 0) return this.send(entry, this.now());
    const { waiting } = entry;
    entry.waiting = [];
    for (const { reject } of waiting) reject(refusal);
  }

  /** Corrects what was charged to leases. Returns the corrections that are not of leases. */
  correct(corrections: readonly Correction[]): readonly Correction[] {
    const now = this.now();
    return corrections.filter(({ charge, units }) => {
      if (charge.receipt === undefined || units >= 0) return true;
      const draws = giveBack(charge.receipt, -units, now);
      if (draws === undefined) return true;
      void this.tellStore(draws);
      return false;
    });
  }

  /** The store may admit more to these keys than it said. */
  forgive(subjects: readonly Subject[]): void {
    for (const { lease } of this.table.of(subjects)) lease.forgive();
  }

  /** Ends the leases of keys that the store refuses from now on, in the background: what they owe is owed still. */
  surrender(subjects: readonly Subject[]): void {
    for (const entry of this.table.of(subjects)) {
      this.table.delete(entry);
      const leaving = this.settleUp(entry).finally(() => this.leaving.delete(leaving));
      this.leaving.add(leaving);
    }
  }

  /** Drops the leases of keys that the store forgets. */
  drop(subjects: readonly Subject[]): void {
    for (const entry of this.table.of(subjects)) {
      entry.lease.end();
      this.table.delete(entry);
    }
  }

  /** Gives back what is unspent, and charges what is owed, of these limits' leases. */
  async return(limits: readonly Leasing[]): Promise<void> {
    const held = this.table.ofLimits(limits).map((entry) => this.settleUp(entry));
    await Promise.all([...held, ...this.leaving]);
  }

  /** Ends a lease once its last call is answered, which may have charged what is owed. */
  private async settleUp(entry: Entry): Promise<void> {
    // Nobody asks for more, so that it soon is.
    while (entry.lease.isAsking) await entry.flight;
    await this.end(entry);
  }

  private async end(entry: Entry): Promise<void> {
    const { lease } = entry;
    this.table.delete(entry);
    const { queue, items } = this.office;
    const calls = [this.tellStore(lease.end())];
    if (lease.debt > 0) calls.push(queue.run(debtItem(items, lease)).catch(() => undefined));
    await Promise.all(calls);
  }

  /** Nobody waits for this to succeed: units that cannot be given back are lost, and the store's health shows why. */
  private async tellStore(draws: readonly Draw[]): Promise<void> {
    if (draws.length === 0) return;
    for (const { lease, units } of draws) tell(lease, 'returned', units);
    const { queue, items } = this.office;
    await Promise.all(
      draws.map((draw) => queue.run(returnItem(items, draw)).catch(() => undefined)),
    );
  }
}

function tell(lease: Lease, event: LeaseEvent['event'], units: number): void {
  if (leaseEvents.hasSubscribers) leaseEvents.publish({ name: lease.of.name, event, units });
}

/** Units that are asked for. */
function unitsOf({ costs, extra }: Ask): number {
  return costs.reduce((sum, [times, cost]) => sum + times * cost, extra);
}

/** Takes the first who wait, as many as one call asks for, and their costs. */
function firstOf(entry: Entry): { waiters: Waiter[]; costs: [times: number, cost: number][] } {
  const costs: [times: number, cost: number][] = [];
  let count = 0;
  for (const { charge } of entry.waiting) {
    const last = costs.at(-1);
    if (last !== undefined && last[1] === charge.cost) last[0]++;
    else if (costs.length < MOST_COSTS) costs.push([1, charge.cost]);
    else break;
    count++;
  }
  return { waiters: entry.waiting.splice(0, count), costs };
}
