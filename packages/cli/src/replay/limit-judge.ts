import {
  addressKey,
  type FileLimit,
  type GateLimitOptions,
  gateLimits,
  HeavyHitters,
  type KeyFunction,
} from '@tollgate/core';
import { fieldOf } from '../log/json.ts';
import type { LogRequest } from '../log/request.ts';
import { alternativesOf, type Alternative } from './alternatives.ts';
import type { ComparedAlgorithm, LimitReport } from './report.ts';
import { Rival } from './rival.ts';

/** Counters for refused keys per limit: any key with a thousandth of a limit's refusals is found. */
const COUNTERS = 1_000;

export type ReplayedLimit = GateLimitOptions<LogRequest> & { readonly by: KeyFunction<LogRequest> };

/** The address as `clientIp()` keys it; a name, which some servers log in its place, as it is. */
function ipKey({ ip }: LogRequest): string | undefined {
  return addressKey(ip) ?? (ip === '' ? undefined : ip);
}

export function replayedLimits(limits: readonly FileLimit[]): ReplayedLimit[] {
  return gateLimits<LogRequest>(limits, {
    ip: ipKey,
    field: (request, path) => fieldOf(request.fields, path) ?? fieldOf(request, path),
  });
}

/** Counts what one limit does. */
export class LimitJudge {
  readonly limit: ReplayedLimit;
  readonly holdsSlots: boolean;
  requests = 0;
  refused = 0;
  withoutKey = 0;
  withoutDuration = 0;
  private readonly source: FileLimit;
  private readonly keys = new HeavyHitters(COUNTERS);
  private readonly alternatives: readonly Alternative[];
  private readonly rivals: readonly (Rival | undefined)[];
  private readonly compare: boolean;

  constructor(source: FileLimit, limit: ReplayedLimit, compare: boolean) {
    this.source = source;
    this.limit = limit;
    this.holdsSlots = source.policy.algorithm === 'concurrency';
    this.compare = compare;
    this.alternatives = compare ? alternativesOf(source.policy) : [];
    this.rivals = this.alternatives.map(
      ({ policy }) => policy && new Rival(policy, source.cost ?? 1),
    );
  }

  /** The key of a request; undefined where the limit does not apply, or cannot be judged. */
  keyOf(request: LogRequest): string | undefined {
    const { skip, by } = this.limit;
    if (skip !== undefined && skip(request) === true) return undefined;
    if (this.holdsSlots && request.duration === undefined) {
      this.withoutDuration++;
      return undefined;
    }
    // The keys of a file are read at once: none is async.
    const key = by(request) as string | undefined;
    if (key === undefined) this.withoutKey++;
    return key;
  }

  /** Asks the other algorithms about a request, each by itself. */
  rival(key: string, time: number): void {
    for (const rival of this.rivals) rival?.consume(key, time);
  }

  refuse(key: string, time: number): void {
    this.refused++;
    this.keys.count(key, time);
  }

  report(top: number): LimitReport {
    const { name, policy, by = 'ip', match, mode } = this.source;
    return {
      name,
      policy,
      by,
      ...(match && { match }),
      shadow: mode === 'shadow',
      requests: this.requests,
      refused: this.refused,
      refusedShare: share(this.refused, this.requests),
      withoutKey: this.withoutKey,
      withoutDuration: this.withoutDuration,
      top: this.keys.top(top).map(({ key, count, atLeast, first, last }) => ({
        key,
        refused: count,
        atLeast,
        firstMs: first / 1_000,
        lastMs: last / 1_000,
      })),
      topIsExact: this.keys.isExact,
      ...(this.compare && {
        algorithms: this.alternatives.map((each, i) => this.compared(each, i)),
      }),
    };
  }

  private compared(
    { algorithm, policy, problem = '' }: Alternative,
    index: number,
  ): ComparedAlgorithm {
    if (policy === undefined) return { algorithm, problem };
    const refused = this.rivals[index]?.refused ?? 0;
    return { algorithm, policy, refused, refusedShare: share(refused, this.requests) };
  }
}

export function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
