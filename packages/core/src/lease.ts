import type { Rule } from './algorithm.ts';
import { show, TollgateConfigError } from './errors.ts';
import type { Policy } from './policy.ts';

/** How a limit's units are taken ahead of time, to be spent in this process without asking the store. */
export interface LeaseOptions {
  /** The part of the quota that a process may hold at most: above 0 and up to 1, default 0.1. */
  readonly share?: number;
  /**
   * Units that a process may admit before it has taken them: a whole number, default 0. Above 0 no decision waits for
   * the store, unless it costs more than this.
   */
  readonly overdraft?: number;
  /**
   * How long units may be held, and how long a process may go by what the store said last: milliseconds from 1 to
   * 60,000, default 100.
   */
  readonly syncMs?: number;
}

const OPTIONS = ['share', 'overdraft', 'syncMs'];
const DEFAULT_SHARE = 0.1;
const DEFAULT_SYNC_MS = 100;
const LONGEST_SYNC_MS = 60_000;

/** Leases under one policy, made ready. */
export class LeaseRule {
  /** By which the store charges. It may hold less than the limit's own rule; see `Rule.ahead`. */
  readonly rule: Rule;
  /** Units that a process holds at most. */
  readonly most: number;
  /** Units that a process may owe. */
  readonly overdraft: number;
  /** How long units may be held, in µs. */
  readonly time: number;
  /** The limit's leases, of which these are those under one policy. */
  readonly leasing: Leasing;

  constructor(leasing: Leasing, rule: Rule, share: number, overdraft: number, time: number) {
    this.leasing = leasing;
    this.rule = rule;
    // Less a hair, so that 0.07 of 100, which is 7.000000000000001, is 7.
    this.most = Math.max(1, Math.floor(share * rule.quota + 1e-9));
    this.overdraft = overdraft;
    this.time = time;
  }
}

/** A limit's lease options, made ready: they give a rule for each of its policies. */
export class Leasing {
  private readonly share: number;
  private readonly overdraft: number;
  private readonly time: number;
  private readonly rules = new WeakMap<Rule, LeaseRule>();
  private last: LeaseRule | undefined;
  private lastOf: Rule | undefined;

  /** @throws TollgateConfigError with the path of the option at fault and the mend. */
  constructor(options: LeaseOptions, path: string) {
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
      throw new TollgateConfigError(
        path,
        `expected options such as { share: ${DEFAULT_SHARE} }, got ${show(options)}`,
      );
    }
    for (const option of Object.keys(options)) {
      if (OPTIONS.includes(option)) continue;
      throw new TollgateConfigError(
        `${path}.${option}`,
        `there is no such option; there are ${OPTIONS.join(', ')}`,
      );
    }
    const { share = DEFAULT_SHARE, overdraft = 0, syncMs = DEFAULT_SYNC_MS } = options;
    if (!(typeof share === 'number' && share > 0 && share <= 1)) {
      throw new TollgateConfigError(
        `${path}.share`,
        `expected a number above 0 and up to 1, got ${show(share)}`,
      );
    }
    if (!Number.isSafeInteger(overdraft) || overdraft < 0) {
      throw new TollgateConfigError(
        `${path}.overdraft`,
        `expected a whole number of 0 or more, got ${show(overdraft)}`,
      );
    }
    if (!(typeof syncMs === 'number' && syncMs >= 1 && syncMs <= LONGEST_SYNC_MS)) {
      throw new TollgateConfigError(
        `${path}.syncMs`,
        `expected milliseconds from 1 to ${LONGEST_SYNC_MS}, got ${show(syncMs)}`,
      );
    }
    this.share = share;
    this.overdraft = overdraft;
    this.time = Math.round(syncMs * 1_000);
  }

  /**
   * The leases under a policy's rule: the same for the same rule.
   *
   * @throws TollgateConfigError when units of the policy cannot be taken ahead of time.
   */
  of(rule: Rule, path: string): LeaseRule {
    if (rule === this.lastOf) return this.last as LeaseRule;
    const known = this.rules.get(rule) ?? this.make(rule, path);
    this.rules.set(rule, known);
    this.lastOf = rule;
    this.last = known;
    return known;
  }

  private make(rule: Rule, path: string): LeaseRule {
    const { policy } = rule;
    // Where requests wait in line, each needs a place of its own.
    if (rule.ahead === undefined || rule.queues) throw unleasable(policy, path);
    const ahead = rule.ahead(this.time);
    if (ahead !== undefined) {
      return new LeaseRule(this, ahead, this.share, this.overdraft, this.time);
    }
    const ms = this.time / 1_000;
    throw new TollgateConfigError(
      path,
      `a capacity of ${rule.quota} is too small for leases of ${ms} ms, which keep back as much as flows in meanwhile; raise the capacity, lower syncMs, or leave lease out`,
    );
  }
}

function unleasable({ algorithm }: Policy, path: string): TollgateConfigError {
  return new TollgateConfigError(
    path,
    `units of a ${algorithm} policy cannot be taken ahead of time; use token-bucket, fixed-window or sliding-window, or leave lease out`,
  );
}
