import { createHash } from 'node:crypto';
import type { Decision } from '../decision.ts';
import type { Verdict } from '../verdict.ts';
import type { Logger } from '../logger.ts';
import { ShedDecision } from './shed-decision.ts';

/** How often one key was refused by one limit. */
export interface RejectedKey {
  readonly key: string;
  /** At least this often; at most `count` + `error`. */
  readonly count: number;
  /** By how much the count may be too high, since keys refused less make room for new ones. */
  readonly error: number;
  /** Milliseconds since the epoch. */
  readonly firstMs: number;
  readonly lastMs: number;
}

/** The refusals of one limit. */
export interface Rejected {
  readonly count: number;
  /** True of a limit in shadow mode, which would have refused so often, and refused nobody. */
  readonly shadow: boolean;
  /** The most refused first. */
  readonly keys: readonly RejectedKey[];
}

/** Refusals since the gate was made, by limit. Those of a shedder stand under `load shedder`, by priority. */
export type Rejections = Readonly<Record<string, Rejected>>;

interface Counts {
  count: number;
  readonly shadow: boolean;
  readonly keys: Map<string, Counted>;
}

interface Counted {
  readonly key: string;
  count: number;
  readonly error: number;
  readonly firstMs: number;
  lastMs: number;
  loggedMs: number;
  unlogged: number;
}

/** Stands beside the limits, none of whose names has a space. */
const SHEDDER = 'load shedder';
const MOST_KEYS = 100;
const LOG_EVERY_MS = 10_000;
const MOST_LOGS_EVERY_MS = 20;

/**
 * Counts and logs refusals in bounded memory: per limit the most refused keys (the space-saving algorithm of Metwally,
 * Agrawal and El Abbadi, 2005), per key one line in ten seconds, and over all keys no more than twenty.
 */
export class RejectionLog {
  private readonly limits = new Map<string, Counts>();
  private readonly neverAdmissible = new Set<string>();
  private readonly logKeys: 'clear' | 'hash' | false;
  private readonly logger: Logger;
  private windowMs = 0;
  /** Of refusals, and of those in the shadow, which must not keep the others out of the log. */
  private logsInWindow = { real: 0, shadow: 0 };

  constructor(logKeys: 'clear' | 'hash' | false, logger: Logger) {
    this.logKeys = logKeys;
    this.logger = logger;
  }

  /** Notes who refuses a request, and which shadows would, also where it is admitted. */
  add(decision: Decision): void {
    if (decision instanceof ShedDecision) return this.addShed(decision);
    const { verdicts, atMs } = decision;
    for (const verdict of verdicts) {
      if (verdict.allowed) continue;
      this.log(verdict, this.count(verdict.name, verdict.key, verdict.shadow, atMs), atMs);
    }
  }

  /** The counts, each limit's most refused keys first. */
  all(): Rejections {
    return Object.fromEntries(
      [...this.limits].map(([name, { count, shadow, keys }]) => [
        name,
        {
          count,
          shadow,
          keys: [...keys.values()]
            .sort((a, b) => b.count - a.count)
            .map((each) => ({
              key: name === SHEDDER ? each.key : (this.shown(each.key) ?? ''),
              count: each.count - each.error,
              error: each.error,
              firstMs: each.firstMs,
              lastMs: each.lastMs,
            })),
        },
      ]),
    );
  }

  /** Priorities are few, so that each has its line whatever else is logged. */
  private addShed({ priority, reason, retryAfterMs, atMs, overload }: ShedDecision): void {
    const counted = this.count(SHEDDER, priority, false, atMs);
    if (Math.abs(atMs - counted.loggedMs) < LOG_EVERY_MS) return;
    const { level, utilization, delayMs } = overload;
    const refused = logged(counted, atMs);
    this.logger.warn(
      { priority, reason, level, utilization, delayMs, retryAfterMs, refused },
      'request refused',
    );
  }

  private count(name: string, key: string, shadow: boolean, atMs: number): Counted {
    let limit = this.limits.get(name);
    if (limit === undefined) {
      limit = { count: 0, shadow, keys: new Map() };
      this.limits.set(name, limit);
    }
    limit.count++;
    let counted = limit.keys.get(key);
    if (counted === undefined) {
      const error = limit.keys.size < MOST_KEYS ? 0 : makeRoom(limit.keys);
      counted = {
        key,
        count: error,
        error,
        firstMs: atMs,
        lastMs: atMs,
        loggedMs: -Infinity,
        unlogged: 0,
      };
      limit.keys.set(key, counted);
    }
    counted.count++;
    counted.unlogged++;
    counted.lastMs = atMs;
    return counted;
  }

  private log(verdict: Verdict, counted: Counted, atMs: number): void {
    if (verdict.retryAfterMs === Infinity && verdict.limit > 0) this.reportNever(verdict);
    if (Math.abs(atMs - this.windowMs) >= LOG_EVERY_MS) {
      this.windowMs = atMs;
      this.logsInWindow = { real: 0, shadow: 0 };
    }
    const { name, shadow, reason, cost, limit, retryAfterMs } = verdict;
    const kind = shadow ? 'shadow' : 'real';
    const isRecent = Math.abs(atMs - counted.loggedMs) < LOG_EVERY_MS;
    if (isRecent || this.logsInWindow[kind] >= MOST_LOGS_EVERY_MS) return;
    this.logsInWindow[kind]++;
    const key = this.shown(counted.key);
    this.logger.warn(
      {
        limit: name,
        ...(key === undefined ? undefined : { key }),
        reason,
        cost,
        quota: limit,
        retryAfterMs,
        refused: logged(counted, atMs),
        ...(shadow && { shadow }),
      },
      shadow ? 'request would be refused' : 'request refused',
    );
  }

  private reportNever({ name, cost, limit }: Verdict): void {
    if (cost <= limit || this.neverAdmissible.has(name)) return;
    this.neverAdmissible.add(name);
    this.logger.error(
      { limit: name, cost, quota: limit },
      'a cost above the quota can never be admitted; lower the cost or raise the quota',
    );
  }

  private shown(key: string): string | undefined {
    if (this.logKeys === false) return undefined;
    return this.logKeys === 'clear'
      ? key
      : createHash('sha256').update(key).digest('base64url').slice(0, 22);
  }
}

/** How many refusals a line tells of, which is written now. */
function logged(counted: Counted, atMs: number): number {
  const { unlogged } = counted;
  counted.loggedMs = atMs;
  counted.unlogged = 0;
  return unlogged;
}

/** Takes out the key refused least and returns its count, which the key in its place inherits as its error. */
function makeRoom(keys: Map<string, Counted>): number {
  let least: Counted | undefined;
  for (const counted of keys.values()) {
    if (least === undefined || counted.count < least.count) least = counted;
  }
  if (least === undefined) return 0;
  keys.delete(least.key);
  return least.count;
}
