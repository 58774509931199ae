import type { Rule } from './algorithm.ts';
import { ConcurrencyRule } from './algorithms/concurrency.ts';
import { ruleOf } from './algorithms/index.ts';
import type { BookedCharge, Ledger } from './booking.ts';
import type { Verdict } from './verdict.ts';
import type { TollgateStoreError } from './errors.ts';
import { Exhausted, type Line } from './exhausted.ts';
import { parsePolicy, type Policy } from './policy.ts';
import type { Answer, Mode, Store } from './store.ts';
import { MemoryStore } from './stores/memory.ts';
import { drainRate } from './tick.ts';

/** A refusal while the store is down says to come back no sooner than this, in milliseconds. */
const LEAST_RETRY_MS = 1_000;

/** What is decided without the store, and the charges as they were then made. */
export interface FallbackAnswer {
  readonly answer: Answer;
  readonly charges: readonly BookedCharge[];
}

const fallbacks = new WeakMap<Store, Fallback>();

/**
 * Answers while the store cannot, each limit as it says: `local` by the same policy, or a share of it, in this
 * process's memory; `allow` not at all; `deny` by refusing. What is in memory is kept from outage to outage.
 */
export class Fallback {
  /** Stands in for the store. */
  readonly local: MemoryStore = new MemoryStore();
  private readonly exhausted = new Exhausted();
  private readonly shares = new WeakMap<Rule, Map<number, Rule>>();

  /** One for each store, since limiters that share it share its budgets. */
  static of(store: Store): Fallback {
    const fallback = fallbacks.get(store) ?? new Fallback();
    fallbacks.set(store, fallback);
    return fallback;
  }

  /** Remembers which keys the store says are exhausted, so that an outage does not set them free. */
  remember(answer: Answer, lines: readonly Line[]): void {
    if (answer.spare === true) this.exhausted.forget(lines);
    else this.exhausted.remember(answer.verdicts);
  }

  /** Units were given back, so that nobody knows any more until when these keys are exhausted. */
  givenBack(lines: readonly Line[]): void {
    this.exhausted.forget(lines);
  }

  /** What was known of a limit's keys went by another policy. */
  replace(name: string): void {
    this.exhausted.forgetLimit(name);
  }

  reset(lines: readonly Line[]): void {
    this.exhausted.forget(lines);
    this.local.reset(lines);
  }

  ban(lines: readonly Line[], length: number): void {
    this.local.ban(lines, length);
  }

  unban(lines: readonly Line[]): void {
    this.exhausted.forget(lines);
    this.local.unban(lines);
  }

  refund(charges: readonly BookedCharge[]): void {
    const local = charges.filter(isLocal);
    this.local.refund(local.map((charge) => this.localCharge(charge, charge.ledger)));
  }

  /** @param ledger where what is charged meanwhile is settled later. */
  decide(
    charges: readonly BookedCharge[],
    mode: Mode,
    error: TollgateStoreError,
    ledger: Ledger,
  ): FallbackAnswer {
    const local = charges.filter(isLocal).map((charge) => this.localCharge(charge, ledger));
    const denied = charges.filter(
      ({ whenStoreFails, shadow }) => whenStoreFails === 'deny' && !shadow,
    );
    // A charge that is made without asking is not refused.
    const known = local.map((charge) =>
      mode === 'charge' ? undefined : this.exhausted.until(charge),
    );
    const refused =
      denied.length > 0 || local.some(({ shadow }, index) => known[index] !== undefined && !shadow);
    const answer = this.local.decide(local, refused ? 'peek' : mode);
    const verdicts = [
      ...denied.map((charge) => unavailable(charge, error)),
      ...answer.verdicts.map((verdict, index): Verdict => ({
        ...verdict,
        ...known[index]?.(verdict),
        source: 'fallback',
      })),
    ];
    const order = new Map(charges.map(({ name }, index) => [name, index]));
    verdicts.sort((a, b) => (order.get(a.name) ?? 0) - (order.get(b.name) ?? 0));
    const admitted = answer.admitted && !refused;
    const delay = admitted ? answer.delay : 0;
    return { answer: { admitted, verdicts, at: answer.at, delay, failure: error }, charges: local };
  }

  private localCharge(charge: BookedCharge, ledger: Ledger): BookedCharge {
    const { rule, whenStoreFails } = charge;
    const own =
      typeof whenStoreFails === 'object' ? this.part(rule, whenStoreFails.local.share) : rule;
    return charge.at(ledger, own);
  }

  /** A rule of a part of the budget. */
  private part(rule: Rule, share: number): Rule {
    const known = this.shares.get(rule) ?? new Map<number, Rule>();
    const part = known.get(share) ?? partOfRule(rule, share);
    this.shares.set(rule, known.set(share, part));
    return part;
  }
}

function isLocal({ whenStoreFails }: BookedCharge): boolean {
  return whenStoreFails !== 'allow' && whenStoreFails !== 'deny';
}

function partOfRule(rule: Rule, share: number): Rule {
  const policy = partOf(rule.policy, share);
  return rule instanceof ConcurrencyRule && policy.algorithm === 'concurrency'
    ? new ConcurrencyRule(policy, partOfUnits(rule.kept, share))
    : ruleOf(policy);
}

/** Rounded up, less a hair, so that 0.07 of 100, which is 7.000000000000001, is 7. */
function partOfUnits(units: number, share: number): number {
  return units === 0 ? 0 : Math.max(1, Math.ceil(units * share - 1e-9));
}

/** A policy of a part of the budget, rounded up. */
export function partOf(policy: Policy, share: number): Policy {
  switch (policy.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket':
      return parsePolicy({ ...policy, ...partOfBucket(policy, share) });
    case 'fixed-window':
    case 'sliding-window':
    case 'sliding-log':
    case 'concurrency':
      return parsePolicy({ ...policy, limit: partOfUnits(policy.limit, share) });
  }
}

type Bucket = Pick<Extract<Policy, { rate: number }>, 'capacity' | 'rate' | 'per'>;

const LONGEST_US = 400 * 86_400_000_000;
const GRAINS_US = [1, 1_000, 1_000_000];

/** A part of a bucket. A lower rate in whole numbers is the same rate over a longer time, where that can be counted. */
function partOfBucket(whole: Bucket, share: number): Bucket {
  const capacity = partOfUnits(whole.capacity, share);
  const wholeUs = Math.round(whole.per * 1_000);
  const us = wholeUs / share;
  const longer = GRAINS_US.filter((grain) => grain === 1 || us >= 1_000 * grain).map((grain) => ({
    rate: whole.rate,
    us: Math.ceil(us / grain - 1e-9) * grain,
  }));
  const lower = [LONGEST_US, wholeUs].map((each) => ({
    rate: partOfUnits(whole.rate, (share * each) / wholeUs),
    us: each,
  }));
  const fitting = [...longer, ...lower].find(
    ({ rate, us: each }) => each <= LONGEST_US && drainRate(capacity, rate, each) !== undefined,
  );
  // The whole rate can be counted, with a smaller capacity too.
  return fitting === undefined
    ? { ...whole, capacity }
    : { capacity, rate: fitting.rate, per: fitting.us / 1_000 };
}

function unavailable({ name, key, rule, cost }: BookedCharge, error: TollgateStoreError): Verdict {
  return {
    name,
    key,
    policy: rule.policy,
    allowed: false,
    shadow: false,
    reason: 'store-unavailable',
    source: 'none',
    cost,
    limit: rule.quota,
    remaining: 0,
    nextAfterMs: Infinity,
    resetAfterMs: Infinity,
    retryAfterMs: Math.max(LEAST_RETRY_MS, error.retryAfterMs),
  };
}
