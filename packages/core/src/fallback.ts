import type { Rule } from './algorithm.ts';
import { ruleOf } from './algorithms/index.ts';
import type { BookedCharge, Ledger, Verdict } from './decision.ts';
import type { TollgateStoreError } from './errors.ts';
import { parsePolicy, type Policy } from './policy.ts';
import type { Answer, Mode } from './store.ts';
import { MemoryStore } from './stores/memory.ts';

/** A refusal while the store is down says to come back no sooner than this, in milliseconds. */
const LEAST_RETRY_MS = 1_000;
/** Keys known to be exhausted that are remembered. */
const MOST_KNOWN = 10_000;

/** What is decided without the store, and the charges as they were then made. */
export interface FallbackAnswer {
  readonly answer: Answer;
  readonly charges: readonly BookedCharge[];
}

/**
 * Answers while the store cannot, each limit as it says: `local` by the same policy, or a share of it, in this
 * process's memory; `allow` not at all; `deny` by refusing. What is in memory is kept from outage to outage.
 */
export class Fallback {
  private readonly local = new MemoryStore();
  private readonly ledger: Ledger;
  private readonly exhausted = new Map<string, number>();
  private readonly shares = new WeakMap<Rule, Map<number, Rule>>();

  constructor() {
    this.ledger = {
      store: this.local,
      correct: (corrections) => this.local.correct(corrections),
      release: (held) => this.local.correct(held.map((charge) => ({ charge, units: -1 }))),
    };
  }

  /** Remembers until when the store would refuse a key, so that an outage does not set it free. */
  remember(verdicts: readonly Verdict[]): void {
    for (const { name, key, allowed, retryAfterMs } of verdicts) {
      if (allowed || retryAfterMs === Infinity) continue;
      const line = `${name}\n${key}`;
      this.exhausted.delete(line);
      if (this.exhausted.size >= MOST_KNOWN) {
        this.exhausted.delete(this.exhausted.keys().next().value ?? '');
      }
      this.exhausted.set(line, performance.now() + retryAfterMs);
    }
  }

  decide(charges: readonly BookedCharge[], mode: Mode, error: TollgateStoreError): FallbackAnswer {
    const local = charges
      .filter(({ whenStoreFails }) => whenStoreFails !== 'allow' && whenStoreFails !== 'deny')
      .map((charge) => this.localCharge(charge));
    const denied = charges.filter(
      ({ whenStoreFails, shadow }) => whenStoreFails === 'deny' && !shadow,
    );
    const known = local.some((charge) => this.knownWaitMs(charge) > 0 && !charge.shadow);
    const refused = denied.length > 0 || known;
    const answer = this.local.decide(local, refused ? 'peek' : mode);
    const verdicts = [
      ...denied.map((charge) => unavailable(charge, error)),
      ...answer.verdicts.map((verdict, index): Verdict => {
        const waitMs = this.knownWaitMs(local[index] as BookedCharge);
        const source = 'fallback';
        if (waitMs === 0) return { ...verdict, source };
        const reason = verdict.allowed ? 'limited' : verdict.reason;
        const retryAfterMs = Math.max(waitMs, verdict.retryAfterMs);
        return { ...verdict, source, allowed: false, reason, remaining: 0, retryAfterMs };
      }),
    ];
    const order = new Map(charges.map(({ name }, index) => [name, index]));
    verdicts.sort((a, b) => (order.get(a.name) ?? 0) - (order.get(b.name) ?? 0));
    const { at, delay } = answer;
    return {
      answer: { admitted: answer.admitted && !refused, verdicts, at, delay },
      charges: local,
    };
  }

  private localCharge(charge: BookedCharge): BookedCharge {
    const { rule, whenStoreFails } = charge;
    const own =
      typeof whenStoreFails === 'object' ? this.part(rule, whenStoreFails.local.share) : rule;
    return charge.at(this.ledger, own);
  }

  private knownWaitMs({ name, key, cost }: BookedCharge): number {
    const until = cost === 0 ? undefined : this.exhausted.get(`${name}\n${key}`);
    return until === undefined ? 0 : Math.max(0, until - performance.now());
  }

  /** A rule of a part of the budget. */
  private part(rule: Rule, share: number): Rule {
    const known = this.shares.get(rule) ?? new Map<number, Rule>();
    const part = known.get(share) ?? ruleOf(parsePolicy(partOf(rule.policy, share)));
    this.shares.set(rule, known.set(share, part));
    return part;
  }
}

/** A policy of a part of the budget, of at least one unit where the whole has any. */
export function partOf(policy: Policy, share: number): Policy {
  const part = (units: number): number =>
    units === 0 ? 0 : Math.max(1, Math.floor(units * share));
  switch (policy.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket':
      // A lower rate in whole numbers is the same rate over a longer time.
      return {
        ...policy,
        capacity: part(policy.capacity),
        per: Math.ceil((policy.per * 1_000) / share) / 1_000,
      };
    case 'fixed-window':
    case 'sliding-window':
    case 'sliding-log':
    case 'concurrency':
      return { ...policy, limit: part(policy.limit) };
  }
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
