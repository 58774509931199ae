import type { Answer, Charge } from '../store.ts';
import { type Verdict, verdictOf } from '../verdict.ts';
import type { Lease, Said } from './lease.ts';

/** A refusal by a lease that knows nothing better says to come back no sooner, in µs. */
const LEAST_WAIT = 1_000;

/** A charge that a lease decided, and what it knew then: enough to say later how the key stood. */
export class LeasedCharge {
  readonly charge: Charge;
  readonly allowed: boolean;
  private readonly lease: Lease;
  private readonly said: Said | undefined;
  private readonly spare: number;
  private readonly now: number;

  constructor(charge: Charge, lease: Lease, allowed: boolean, now: number) {
    this.charge = charge;
    this.allowed = allowed;
    this.lease = lease;
    this.said = lease.known;
    this.spare = lease.spare;
    this.now = now;
  }

  /** The same once its units were given back. */
  untaken(): LeasedCharge {
    return new LeasedCharge(this.charge, this.lease, this.allowed, this.now);
  }

  /** The store's time, in µs: no later than it can be. */
  get at(): number {
    const { said, now } = this;
    return said === undefined ? Date.now() * 1_000 : said.at + Math.floor(now - said.heardAt);
  }

  /**
   * Its times and what remains are bounds: of the store it is known what it said last, and not what other processes took
   * or gave back since.
   */
  verdict(): Verdict {
    const { charge, allowed, lease, said, spare, at } = this;
    const { rule } = lease.terms;
    const state =
      said === undefined ? Array.from({ length: rule.size ?? 0 }, () => 0) : [...said.state];
    rule.roll(state, at, rule.offset(charge.key));
    const free = rule.remaining(state, at);
    const most = Math.min(charge.rule.quota, spare + free);
    const resetAfter = rule.resetAfter(state, at);
    const standing = {
      wait: allowed ? 0 : Math.max(LEAST_WAIT, rule.wait(state, charge.cost, at)),
      remaining: allowed ? most : Math.min(most, charge.cost - 1),
      nextAfter: resetAfter === 0 ? 0 : rule.wait(state, free + 1, at),
      resetAfter,
    };
    const banned = allowed || said === undefined ? 0 : Math.max(0, said.banned - (at - said.at));
    return { ...verdictOf(charge, standing, banned), source: 'lease' };
  }
}

/** What leases decide without asking the store. */
export class LeaseAnswer implements Answer {
  readonly admitted: boolean;
  readonly delay = 0;
  private readonly charges: readonly LeasedCharge[];
  private made: readonly Verdict[] | undefined;

  constructor(charges: readonly LeasedCharge[]) {
    this.charges = charges;
    let admitted = true;
    for (let i = 0; i < charges.length; i++) {
      const { allowed, charge } = charges[i] as LeasedCharge;
      if (!allowed && !charge.shadow) admitted = false;
    }
    this.admitted = admitted;
  }

  get at(): number {
    let latest = 0;
    for (let i = 0; i < this.charges.length; i++) {
      latest = Math.max(latest, (this.charges[i] as LeasedCharge).at);
    }
    return latest;
  }

  get verdicts(): readonly Verdict[] {
    return (this.made ??= this.charges.map((charge) => charge.verdict()));
  }
}
