import {
  addressKey,
  createLimiter,
  type FileLimit,
  type GateLimitOptions,
  gateLimits,
  type KeyFunction,
  limiterLimits,
  type Limiter,
  type MemoryStore,
  memoryStore,
} from '@tollgate/core';
import { fieldOf } from '../log/json.ts';
import type { LogRequest } from '../log/request.ts';
import { alternativesOf, type Alternative } from './alternatives.ts';
import { HeavyHitters } from './heavy-hitters.ts';
import type { ComparedAlgorithm, LimitReport } from './report.ts';

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

/** The same limit, alone, under another algorithm. */
interface Rival {
  readonly alternative: Alternative;
  readonly limiter: Limiter<MemoryStore> | undefined;
  refused: number;
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
  private readonly rivals: readonly Rival[];
  private readonly compare: boolean;

  constructor(source: FileLimit, limit: ReplayedLimit, compare: boolean, clock: () => number) {
    this.source = source;
    this.limit = limit;
    this.holdsSlots = source.policy.algorithm === 'concurrency';
    this.compare = compare;
    this.rivals = compare ? rivalsOf(source, clock) : [];
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
  rival(key: string): void {
    for (const rival of this.rivals) {
      if (rival.limiter?.consume({ [this.source.name]: key }).allowed === false) rival.refused++;
    }
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
      ...(this.compare && { algorithms: this.rivals.map((each) => this.compared(each)) }),
    };
  }

  private compared({ alternative, refused }: Rival): ComparedAlgorithm {
    const { algorithm, policy, problem = '' } = alternative;
    if (policy === undefined) return { algorithm, problem };
    return { algorithm, policy, refused, refusedShare: share(refused, this.requests) };
  }
}

function rivalsOf(source: FileLimit, clock: () => number): Rival[] {
  return alternativesOf(source.policy).map((alternative) => {
    const { policy } = alternative;
    if (policy === undefined) return { alternative, limiter: undefined, refused: 0 };
    const store = memoryStore({ clock });
    // Its mode is left out, so that a shadow refuses too.
    const { mode: _, ...limit } = { ...source, policy };
    return {
      alternative,
      limiter: createLimiter({ store, limits: limiterLimits([limit]) }),
      refused: 0,
    };
  });
}

export function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
