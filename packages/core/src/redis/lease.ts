import type { Receipt } from '../algorithm.ts';
import type { LeaseRule } from '../lease.ts';
import { type Asked, type Costs, fitting, type Told } from './grant.ts';

/** By how much the clocks of two machines may run apart. */
const DRIFT = 1e-3;
/** How many grants that ran out are given back with the next call, of those that had units left. */
const MOST_LEFT = 4;

/** What a lease is of. */
export interface LeasedKey {
  readonly name: string;
  readonly key: string;
  /** What it is called in the store. */
  readonly storeKey: string;
}

/** Units that were charged in the store, and are spent here until they run out. */
interface Grant {
  readonly lease: Lease;
  units: number;
  readonly until: number;
  /** What the charge left behind in the store. */
  readonly receipt: Receipt;
}

/** Units of a grant. */
export interface Draw {
  readonly lease: Lease;
  readonly units: number;
  readonly receipt: Receipt;
}

/** A call to the store that is under way. */
export interface Ask extends Asked {
  /** Units admitted before they were charged: the first of the costs. */
  readonly owed: number;
  /** Units that ran out, given back first. */
  readonly back: readonly Draw[];
  /** When it was made. */
  readonly at: number;
}

/** What the store said last. */
export interface Said extends Told {
  readonly askedAt: number;
  readonly heardAt: number;
}

/** What a call brought those who waited for it. */
export interface Brought {
  /** How often each of their costs was admitted. */
  readonly times: readonly number[];
  readonly receipt: Receipt;
}

const grants = new WeakMap<Receipt, Grant>();
/** What a charge took, where it was not all of one grant. */
const draws = new WeakMap<Receipt, readonly Draw[]>();
/** Leases that admitted a charge before they had its units. */
const lenders = new WeakMap<Receipt, Lease>();

/**
 * One process's lease of a key: units are charged in the store ahead of time, and spent here without asking. A pure
 * machine: it is told the time, in µs on a clock of this process that never steps back, and what the store said, and
 * does nothing by itself.
 *
 * Why admissions keep to the limit: every unit admitted was charged by an ordinary admission in the store, once, since
 * no call is sent twice and a lost reply loses its units. And it is used within the lease's time of that charge, and in
 * the window it counts in, since that time is counted here from before the call was sent, less what clocks may run
 * apart. With an overdraft, as many units at most were not charged yet.
 */
export class Lease {
  readonly of: LeasedKey;
  readonly terms: LeaseRule;
  /** Units that it may owe. */
  readonly overdraft: number;
  /** Those that may have units, and may have run out. */
  private live: Grant[] = [];
  /** Units of these. */
  private held = 0;
  /** More is asked for when no more than so many are held. */
  private renewAt = -1;
  private left: Draw[] = [];
  /** Units admitted before they were charged. */
  private owed = 0;
  /** Whether the store had nothing to pay that with, when it was last asked. */
  private isStuck = false;
  private readonly overdrawn: Receipt = [];
  private asking: Ask | undefined;
  private said: Said | undefined;
  /** The last cost that was asked about, and until when it is refused by what the store said. */
  private refusal: { said: Said | undefined; cost: number; until: number };
  /** Units wanted since then, and before that per µs. */
  private wanted = 0;
  private since: number;
  private rate = 0;
  private ended = false;

  constructor(of: LeasedKey, terms: LeaseRule, now: number, overdraft: number = terms.overdraft) {
    this.of = of;
    this.terms = terms;
    this.overdraft = overdraft;
    this.since = now;
    this.refusal = { said: undefined, cost: 0, until: -Infinity };
    lenders.set(this.overdrawn, this);
  }

  /** Units that are held. Some may have run out since the last call that was told the time. */
  get spare(): number {
    return this.held;
  }

  /** Units that are held now. */
  spareAt(now: number): number {
    this.sort(now);
    return this.held;
  }

  /** Units admitted before they were charged, and not charged yet. */
  get debt(): number {
    return this.owed;
  }

  /** What the store said last. */
  get known(): Said | undefined {
    return this.said;
  }

  /** Whether a call is under way. */
  get isAsking(): boolean {
    return this.asking !== undefined;
  }

  /** Whether it is time to ask for more. */
  get isLow(): boolean {
    const owes = this.owed > 0 && !this.isStuck;
    return (owes || this.held <= this.renewAt) && this.asking === undefined && !this.ended;
  }

  /**
   * Takes `cost` units, above 0: a receipt when they are admitted, `refused` when the store would refuse them still, as
   * far as it has said, and `short` when it has to be asked.
   */
  take(cost: number, now: number): Receipt | 'refused' | 'short' {
    const first = this.live[0];
    if (first === undefined || cost > first.units || now >= first.until) {
      return this.takeOfAll(cost, now);
    }
    this.wanted += cost;
    this.held -= cost;
    first.units -= cost;
    return first.receipt;
  }

  private takeOfAll(cost: number, now: number): Receipt | 'refused' | 'short' {
    this.sort(now);
    const isHeld = cost <= this.held;
    const isRefused = !isHeld && now < this.refusedUntil(cost);
    const isLent = !isHeld && !isRefused && this.owed + cost <= this.overdraft;
    if (!isHeld && !isRefused && !isLent) return 'short';
    this.wanted += cost;
    if (isHeld) return this.draw(cost);
    if (isRefused) return 'refused';
    this.owed += cost;
    this.isStuck = false;
    return this.overdrawn;
  }

  /** Units were wanted that the store was asked for past this lease. */
  missed(cost: number): void {
    this.wanted += cost;
  }

  private draw(cost: number): Receipt {
    const taken: Draw[] = [];
    let missing = cost;
    for (const grant of this.live) {
      const units = Math.min(missing, grant.units);
      if (units === 0) break;
      grant.units -= units;
      missing -= units;
      taken.push({ lease: this, units, receipt: grant.receipt });
    }
    this.held -= cost;
    const [first] = taken;
    if (first !== undefined && taken.length === 1) return first.receipt;
    const receipt: Receipt = [];
    draws.set(receipt, taken);
    return receipt;
  }

  /** Until when the store would refuse a cost, unless units were given back or a policy replaced meanwhile. */
  private refusedUntil(cost: number): number {
    const { said, refusal } = this;
    if (said !== undefined && (refusal.said !== said || refusal.cost !== cost)) {
      const { rule, time } = this.terms;
      const wait = Math.max(rule.wait(said.state, cost, said.at), said.banned);
      this.refusal = { said, cost, until: said.askedAt + lasting(Math.min(wait, time)) };
    }
    return this.refusal.until;
  }

  /** Forgets what the store would refuse, since it may have changed its mind. */
  forgive(): void {
    if (this.said !== undefined) this.said = { ...this.said, askedAt: -Infinity };
  }

  /**
   * Makes the next call, of which one may be under way at a time; undefined where there is nothing to ask for.
   *
   * @param waiting the costs of those who wait for it.
   */
  ask(waiting: Costs, now: number): Ask | undefined {
    for (const [times, cost] of waiting) this.wanted += times * cost;
    this.measure(now);
    this.sort(now);
    const { owed, terms } = this;
    const size = Math.min(terms.most, Math.floor(this.rate * terms.time));
    const extra = Math.max(0, size - this.held);
    this.renewAt = -1;
    if (owed === 0 && waiting.length === 0 && extra === 0) return undefined;
    const costs: Costs = owed > 0 ? [[owed, 1], ...waiting] : waiting;
    this.asking = { costs, extra, owed, back: this.left, at: now };
    this.left = [];
    return this.asking;
  }

  /** Takes in what the store answered a call. */
  granted({ costs, owed, at }: Ask, told: Told, now: number): Brought {
    this.asking = undefined;
    this.said = { ...told, askedAt: at, heardAt: now };
    const times = fitting(told.free, costs);
    let rest = told.units;
    for (let i = owed > 0 ? 1 : 0; i < costs.length; i++) {
      rest -= (times[i] as number) * (costs[i] as Costs[number])[1];
    }
    // What is owed is paid first, and so is what came to be owed meanwhile.
    const paid = Math.min(this.owed, rest);
    this.owed -= paid;
    this.isStuck = paid === 0;
    const receipt = this.receive(rest - paid, told, at);
    this.sort(now);
    this.renewAtHalf();
    return { times: owed > 0 ? times.slice(1) : times, receipt };
  }

  /** A call failed. What it was granted, if it was, is lost. */
  lost(): void {
    this.asking = undefined;
    // Not with every charge from now on.
    this.renewAtHalf();
  }

  private renewAtHalf(): void {
    this.renewAt = this.held === 0 ? -1 : Math.floor(this.held / 2);
  }

  /** Notes a grant that was asked for at `askedAt`, if only so that its units can be given back. */
  private receive(units: number, { state, at }: Told, askedAt: number): Receipt {
    const { rule, time } = this.terms;
    const receipt = state.slice(0, rule.size);
    const usable = Math.min(time, rule.usableFor?.(state, at) ?? 0);
    const grant = { lease: this, units, until: askedAt + lasting(usable), receipt };
    grants.set(receipt, grant);
    this.add(grant, units);
    return receipt;
  }

  private add(grant: Grant, units: number): void {
    this.held += units;
    if (!this.live.includes(grant)) this.live.push(grant);
  }

  /** Puts first what runs out first, and puts away what has run out or has no units. */
  private sort(now: number): void {
    const { live } = this;
    if (live.length === 0) return;
    this.live = [];
    this.held = 0;
    for (const grant of live) {
      if (grant.units === 0) continue;
      if (now < grant.until) this.add(grant, grant.units);
      else if (this.left.push(drawOf(grant)) > MOST_LEFT) this.left.shift();
    }
    this.live.sort((a, b) => a.until - b.until);
  }

  private measure(now: number): void {
    const span = now - this.since;
    if (span <= 0) return;
    const weight = span / (span + this.terms.time);
    this.rate += weight * (this.wanted / span - this.rate);
    this.wanted = 0;
    this.since = now;
  }

  /** Takes back units of a grant, while they can be used here. */
  takeBack(grant: Grant, units: number, now: number): boolean {
    if (this.ended || now >= grant.until) return false;
    grant.units += units;
    this.add(grant, units);
    return true;
  }

  /** A charge that was admitted ahead took fewer units after all. Those that were paid for meanwhile are lost. */
  owesLess(units: number): void {
    this.owed -= Math.min(this.owed, units);
  }

  /** Ends the lease. Returns what is unspent. */
  end(): readonly Draw[] {
    const unspent = [...this.left, ...this.live.filter(({ units }) => units > 0).map(drawOf)];
    this.ended = true;
    this.live = [];
    this.left = [];
    this.held = 0;
    return unspent;
  }
}

function drawOf({ lease, units, receipt }: Grant): Draw {
  return { lease, units, receipt };
}

/** A span that is over here before a span of this length is over by the store's clock. */
function lasting(span: number): number {
  return Math.floor(span * (1 - DRIFT));
}

/** Whether the units that a charge took have not run out. */
export function isGood(receipt: Receipt, now: number): boolean {
  const grant = grants.get(receipt);
  if (grant !== undefined) return now < grant.until;
  return draws.get(receipt)?.every((draw) => isGood(draw.receipt, now)) ?? true;
}

/**
 * Gives units of a charge back to the lease that they were taken of, as long as they can be used there. Returns those
 * that are to be given back to the store; undefined for a charge that was not of a lease.
 */
export function giveBack(receipt: Receipt, units: number, now: number): Draw[] | undefined {
  const lender = lenders.get(receipt);
  if (lender !== undefined) {
    lender.owesLess(units);
    return [];
  }
  const grant = grants.get(receipt);
  if (grant !== undefined) {
    const { lease } = grant;
    return lease.takeBack(grant, units, now) ? [] : [{ lease, units, receipt }];
  }
  const taken = draws.get(receipt);
  if (taken === undefined) return undefined;
  let rest = units;
  return taken.toReversed().flatMap((draw) => {
    const part = Math.min(rest, draw.units);
    rest -= part;
    return part === 0 ? [] : (giveBack(draw.receipt, part, now) ?? []);
  });
}
