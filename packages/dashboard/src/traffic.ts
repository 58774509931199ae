import type { Decision, Policy, Verdict } from '@tollgate/core';
import { type Counts, type Outcome, type Range, RANGES, Series, STEPS } from './series.ts';

/** Policies of one limit that are remembered, where requests bring their own. */
const MOST_POLICIES = 8;
/** Refused keys of one limit that are remembered, with the policy that they were refused by. */
const MOST_KEYS = 500;

/** What this process decided at one limit. Bounded, however many keys there are. */
export class LimitTraffic {
  /** Since the dashboard was made. */
  readonly totals: Record<Outcome, number> = { admitted: 0, refused: 0, elsewhere: 0 };
  private readonly series: Readonly<Record<Range, Series>> = {
    '2m': new Series(RANGES['2m']),
    '1h': new Series(RANGES['1h']),
    '24h': new Series(RANGES['24h']),
  };
  /** The policies that requests brought, the first seen first. */
  private readonly seen: Policy[] = [];
  /** The policy that each key was refused by last, the last refused at the end. */
  private readonly refused = new Map<string, Policy>();

  count({ key, allowed, policy }: Verdict, isAdmitted: boolean, atMs: number): void {
    const outcome = allowed ? (isAdmitted ? 'admitted' : 'elsewhere') : 'refused';
    this.totals[outcome]++;
    this.series['2m'].add(outcome, atMs);
    this.series['1h'].add(outcome, atMs);
    this.series['24h'].add(outcome, atMs);
    if (this.seen.length < MOST_POLICIES && !this.seen.includes(policy)) this.see(policy);
    if (outcome === 'refused') this.remember(key, policy);
  }

  read(range: Range, atMs: number): Counts {
    return this.series[range].read(atMs);
  }

  get policies(): readonly Policy[] {
    return this.seen;
  }

  /** The policy that a key was refused by last, if that is remembered. */
  policyOf(key: string): Policy | undefined {
    return this.refused.get(key);
  }

  /** The refused key that `shown` stands for, where keys are shown as hashes. */
  keyShownAs(shown: string, show: (key: string) => string | undefined): string | undefined {
    for (const key of this.refused.keys()) if (show(key) === shown) return key;
    return undefined;
  }

  private see(policy: Policy): void {
    const text = JSON.stringify(policy);
    if (!this.seen.some((each) => JSON.stringify(each) === text)) this.seen.push(policy);
  }

  private remember(key: string, policy: Policy): void {
    this.refused.delete(key);
    this.refused.set(key, policy);
    if (this.refused.size <= MOST_KEYS) return;
    for (const oldest of this.refused.keys()) {
      this.refused.delete(oldest);
      return;
    }
  }
}

/** What this process decided, by limit, since the dashboard was made. */
export class Traffic {
  readonly sinceMs: number = Date.now();
  private readonly limits = new Map<string, LimitTraffic>();
  private readonly now: () => number;

  /** @param now milliseconds of a clock that never steps back. */
  constructor(now: () => number = () => performance.timeOrigin + performance.now()) {
    this.now = now;
  }

  count(decision: Decision): void {
    const { allowed, verdicts } = decision;
    const atMs = this.now();
    for (const verdict of verdicts) this.of(verdict.name).count(verdict, allowed, atMs);
  }

  read(name: string, range: Range): Counts {
    return this.of(name).read(range, this.now());
  }

  /** How long ago the oldest step of a range began, in milliseconds. */
  ageMs(range: Range): number {
    const stepMs = RANGES[range];
    const now = this.now();
    return now - (Math.floor(now / stepMs) - STEPS + 1) * stepMs;
  }

  of(name: string): LimitTraffic {
    let limit = this.limits.get(name);
    if (limit === undefined) this.limits.set(name, (limit = new LimitTraffic()));
    return limit;
  }
}
