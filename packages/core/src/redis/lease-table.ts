import type { LeaseRule, Leasing } from '../lease.ts';
import type { Answer, Charge } from '../store.ts';
import type { Lease } from './lease.ts';

/** Keys whose leases a process holds at most, but for those that cannot go yet. */
const MOST_LEASES = 10_000;
/** Leases that are looked at for one more, so that many keys at once are not looked through for each. */
const MOST_LOOKS = 64;

/** One who waits for a key's next call. */
export interface Waiter {
  readonly charge: Charge;
  /** On the monotonic clock, in ms. */
  readonly madeAt: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** A lease, and who waits for it. */
export interface Entry {
  readonly lease: Lease;
  /** Names the key among those under the lease's rule. */
  readonly id: string;
  /** In order of arrival. */
  waiting: Waiter[];
  /** Whether a call is about to be made. */
  scheduled: boolean;
  /** The call that is under way. */
  flight: Promise<void> | undefined;
  /** Whether it was used since it was last passed over. */
  used: boolean;
}

interface Subject {
  readonly name: string;
  readonly key: string;
}

/** The leases of a store: a bounded number, of which those go first that were not used for long. */
export class LeaseTable {
  private readonly byRule = new Map<LeaseRule, Map<string, Entry>>();
  /** In the order in which they are passed over. */
  private readonly all = new Set<Entry>();
  private readonly byLine = new Map<string, Set<Entry>>();
  /** What was found last: a hot key is looked for again and again. */
  private latest: Entry | undefined;
  private readonly evicted: (entry: Entry) => void;
  private readonly most: number = MOST_LEASES;

  private readonly owes: (entry: Entry) => void;

  /**
   * @param evicted is called with a lease that went.
   * @param owes is called with one that cannot go before it has paid what it owes.
   */
  constructor(evicted: (entry: Entry) => void, owes: (entry: Entry) => void) {
    this.evicted = evicted;
    this.owes = owes;
  }

  find(rule: LeaseRule, id: string): Entry | undefined {
    const { latest } = this;
    if (latest?.id === id && latest.lease.terms === rule) return latest;
    this.latest = this.byRule.get(rule)?.get(id);
    return this.latest;
  }

  /** @param id names the key among those under the lease's rule. */
  add(lease: Lease, id: string): Entry {
    const entry: Entry = {
      lease,
      id,
      waiting: [],
      scheduled: false,
      flight: undefined,
      used: true,
    };
    const table = this.byRule.get(lease.terms) ?? new Map<string, Entry>();
    this.byRule.set(lease.terms, table.set(id, entry));
    this.all.add(entry);
    const line = lineOf(lease.of);
    this.byLine.set(line, (this.byLine.get(line) ?? new Set()).add(entry));
    return entry;
  }

  /** All leases of these keys. */
  of(subjects: readonly Subject[]): Entry[] {
    if (this.all.size === 0) return [];
    return subjects.flatMap((subject) => [...(this.byLine.get(lineOf(subject)) ?? [])]);
  }

  /** All leases of these limits. */
  ofLimits(limits: readonly Leasing[]): Entry[] {
    return [...this.all].filter(({ lease }) => limits.includes(lease.terms.leasing));
  }

  delete(entry: Entry): void {
    // Else there may be another of its key by now.
    if (!this.all.delete(entry)) return;
    if (this.latest === entry) this.latest = undefined;
    const { terms, of } = entry.lease;
    const table = this.byRule.get(terms);
    table?.delete(entry.id);
    if (table?.size === 0) this.byRule.delete(terms);
    const line = lineOf(of);
    this.byLine.get(line)?.delete(entry);
    if (this.byLine.get(line)?.size === 0) this.byLine.delete(line);
  }

  /**
   * Makes room for one more, and returns whether there is. Passes over those that were used since the last time, are
   * waited for, or owe: one that went and came again could owe as much once more. What finds no room is held for as
   * long as it is asked for, and is not to owe.
   */
  makeRoom(): boolean {
    let looks = 0;
    let debtor: Entry | undefined;
    for (const entry of this.all) {
      if (this.all.size < this.most || looks === MOST_LOOKS) break;
      const { lease, waiting, scheduled, used } = entry;
      const isBusy = lease.isAsking || scheduled || waiting.length > 0;
      const stays = isBusy || lease.debt > 0;
      if (!isBusy && stays) debtor ??= entry;
      // Each use costs one look more and no second, so only the others are counted.
      if (stays || !used) looks++;
      if (stays || used) {
        entry.used = false;
        this.all.delete(entry);
        this.all.add(entry);
      } else {
        this.delete(entry);
        this.evicted(entry);
      }
    }
    if (debtor !== undefined) this.owes(debtor);
    return this.all.size < this.most;
  }
}

/** A name has no line break, so no two lines are named alike. */
function lineOf({ name, key }: Subject): string {
  return `${name}\n${key}`;
}
