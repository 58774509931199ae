import { withVerdicts } from '../answer.ts';
import type { Answer, Charge, Correction, Mode } from '../store.ts';
import type { Verdict } from '../verdict.ts';
import { isGood } from './lease.ts';
import { LeaseAnswer, LeasedCharge } from './lease-answer.ts';
import type { Entry } from './lease-table.ts';
import type { Leases } from './leases.ts';

/** How the store decides, and corrects, without leases. */
export interface Exact {
  decide(charges: readonly Charge[], mode: Mode): Promise<Answer>;
  correct(corrections: readonly Correction[]): Promise<void>;
}

/** What leases say of a decision's charges. */
interface Attempt {
  /** By the charges' places; undefined for those that are not of leases. */
  readonly taken: readonly (LeasedCharge | undefined)[];
  readonly outcome: 'held' | 'refused' | 'short';
}

/** Whether any of a decision's charges is of a lease. */
export function isLeased(charges: readonly Charge[]): boolean {
  for (const { lease } of charges) if (lease !== undefined) return true;
  return false;
}

/**
 * Decisions of which some charges, or all, are of leases. All or nothing still holds: units are taken here first, and
 * then the other limits are charged in the store in one call; what it refuses is put back. A decision that leases alone
 * cannot make is made in the store, all its limits as one.
 */
export class LeasedDecisions {
  private readonly leases: Leases;
  private readonly exact: Exact;

  constructor(leases: Leases, exact: Exact) {
    this.leases = leases;
    this.exact = exact;
  }

  /** Decides without asking the store; undefined where it has to be asked. */
  decideAtOnce(charges: readonly Charge[], mode: Mode): Answer | undefined {
    if (mode !== 'consume' && mode !== 'attempt') return undefined;
    if (charges.length === 0 || !areTakeable(charges)) return undefined;
    const now = this.leases.now();
    if (charges.length === 1) return this.decideOne(charges[0] as Charge, charges, now);
    const { taken, outcome } = this.attempt(charges, now);
    if (outcome === 'short') return undefined;
    return new LeaseAnswer(taken as readonly LeasedCharge[]);
  }

  private decideOne(charge: Charge, charges: readonly Charge[], now: number): Answer | undefined {
    const entry = this.entryOf(charge, charges, 0, now);
    const taken = this.leases.take(entry, charge, now) ?? this.refusal(entry, charge, now);
    if (taken === undefined) return undefined;
    if (taken.allowed) this.leases.renew(entry, now);
    return new LeaseAnswer([taken]);
  }

  async decide(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    if (mode === 'charge') return this.exact.decide(charges, mode);
    if (mode === 'peek') return this.peek(charges);
    const known = this.decideAtOnce(charges, mode);
    if (known !== undefined) return known;
    const [only] = charges;
    if (only !== undefined && charges.length === 1 && canBeTaken(only)) {
      return this.leases.join(this.entryOf(only, charges, 0, this.leases.now()), only);
    }
    return this.decideLayers(charges, mode);
  }

  /** Some limits are of leases, and others are not; or leases alone do not suffice. */
  private async decideLayers(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    const { leases, exact } = this;
    const { taken, outcome } = this.attempt(charges, leases.now());
    if (outcome === 'short') return this.decideInStore(charges, mode);
    const own = charges.filter((_, index) => taken[index] !== undefined);
    const others = charges.filter((_, index) => taken[index] === undefined);
    if (outcome === 'refused') return this.refused(charges, taken, others);
    let answer: Answer;
    try {
      answer = await exact.decide(others, mode);
    } catch (error) {
      leases.untake(own, leases.now());
      throw error;
    }
    if (!answer.admitted) {
      leases.untake(own, leases.now());
      return merged(
        charges,
        taken.map((each) => each?.untaken()),
        answer,
      );
    }
    if (this.ranOut(own)) return this.decideAgain(own, others, charges, mode);
    return merged(charges, taken, answer);
  }

  /** Whether units ran out while the store was asked. */
  private ranOut(charges: readonly Charge[]): boolean {
    const now = this.leases.now();
    return charges.some(({ receipt }) => receipt !== undefined && !isGood(receipt, now));
  }

  private async decideAgain(
    own: readonly Charge[],
    others: readonly Charge[],
    charges: readonly Charge[],
    mode: Mode,
  ): Promise<Answer> {
    this.leases.untake(own, this.leases.now());
    const undone = others.map((charge) => ({ charge, units: -charge.cost }));
    // What cannot be given back is lost; the store's health shows why.
    await this.exact.correct(undone).catch(() => undefined);
    for (const charge of others) charge.receipt = undefined;
    return this.decideInStore(charges, mode);
  }

  /** Decides all limits in the store, and asks it for units for the next time. */
  private async decideInStore(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    const answer = await this.exact.decide(charges, mode);
    const now = this.leases.now();
    for (const [index, charge] of charges.entries()) {
      if (!canBeTaken(charge)) continue;
      const entry = this.entryOf(charge, charges, index, now);
      entry.lease.missed(charge.cost);
      this.leases.consult(entry, now);
    }
    return answer;
  }

  /** A lease refuses: nothing is charged, and of the other limits it is asked how they stand. */
  private async refused(
    charges: readonly Charge[],
    taken: Attempt['taken'],
    others: readonly Charge[],
  ): Promise<Answer> {
    const own = new LeaseAnswer(taken.filter((each) => each !== undefined));
    try {
      return {
        ...merged(charges, taken, await this.exact.decide(others, 'peek')),
        admitted: false,
      };
    } catch (failure) {
      return { admitted: false, verdicts: own.verdicts, at: own.at, delay: 0, failure };
    }
  }

  /** What the store says, and what is held here besides. */
  private async peek(charges: readonly Charge[]): Promise<Answer> {
    const answer = await this.exact.decide(charges, 'peek');
    const now = this.leases.now();
    const verdicts = answer.verdicts.map((verdict): Verdict => {
      const index = charges.findIndex(({ name }) => name === verdict.name);
      const charge = charges[index] as Charge;
      const spare = canBeTaken(charge)
        ? this.entryOf(charge, charges, index, now).lease.spareAt(now)
        : 0;
      if (spare === 0 || verdict.reason === 'banned') return verdict;
      const remaining = Math.min(verdict.limit, verdict.remaining + spare);
      const isHeld = charge.cost <= spare;
      return {
        ...verdict,
        remaining,
        source: 'lease',
        ...(isHeld && { allowed: true, reason: 'ok', retryAfterMs: 0 }),
      };
    });
    const isAdmitted = verdicts.every(({ allowed, shadow }) => allowed || shadow);
    return withVerdicts(answer, verdicts, isAdmitted);
  }

  /** Takes units of all leases, or of none. */
  private attempt(charges: readonly Charge[], now: number): Attempt {
    const { leases } = this;
    const taken: (LeasedCharge | undefined)[] = [];
    const used: Entry[] = [];
    let outcome: Attempt['outcome'] = 'held';
    for (const [index, charge] of charges.entries()) {
      if (!canBeTaken(charge)) {
        taken.push(undefined);
        continue;
      }
      const entry = this.entryOf(charge, charges, index, now);
      const own = leases.take(entry, charge, now) ?? this.refusal(entry, charge, now);
      used.push(entry);
      taken.push(own);
      if (own === undefined) outcome = 'short';
      else if (!own.allowed && !charge.shadow && outcome === 'held') outcome = 'refused';
      if (outcome === 'short') break;
    }
    if (outcome === 'held') {
      for (const entry of used) leases.renew(entry, now);
      return { taken, outcome };
    }
    leases.untake(
      taken.flatMap((each) => each?.charge ?? []),
      now,
    );
    return { taken: taken.map((each) => each?.untaken()), outcome };
  }

  /**
   * Refuses what a lease with an overdraft has no units for: there nobody waits for the store, unless it is out, or the
   * cost is above the overdraft.
   */
  private refusal(entry: Entry, charge: Charge, now: number): LeasedCharge | undefined {
    const { lease } = entry;
    if (charge.cost > lease.overdraft || this.leases.isOut) return undefined;
    this.leases.consult(entry, now);
    return new LeasedCharge(charge, lease, false, now);
  }

  private entryOf(charge: Charge, charges: readonly Charge[], index: number, now: number): Entry {
    const { lease } = charge;
    if (lease === undefined) throw new TypeError(`${charge.name} is not leased`);
    return this.leases.entryOf(lease, charges, index, now);
  }
}

/** Whether a charge may be of a lease. One of no units is left to the store. */
function canBeTaken({ lease, cost }: Charge): boolean {
  return lease !== undefined && cost > 0;
}

function areTakeable(charges: readonly Charge[]): boolean {
  for (let i = 0; i < charges.length; i++) if (!canBeTaken(charges[i] as Charge)) return false;
  return true;
}

/** What the store and leases say together. */
function merged(charges: readonly Charge[], taken: Attempt['taken'], answer: Answer): Answer {
  const others = new Map(answer.verdicts.map((verdict) => [verdict.name, verdict]));
  const verdicts = charges.flatMap(
    ({ name }, index) => taken[index]?.verdict() ?? others.get(name) ?? [],
  );
  return withVerdicts(answer, verdicts);
}
