import type { FileLimit, Policy } from '@tollgate/core';

/** A line that could not be read. */
export interface BadLine {
  readonly log: string;
  readonly line: number;
  readonly reason: string;
  /** Its beginning. */
  readonly text: string;
}

/** A key that would have been refused. */
export interface RefusedKey {
  readonly key: string;
  /** How many of its requests; where there were more keys than counters, it may be fewer. */
  readonly refused: number;
  /** How many of its requests at least. */
  readonly atLeast: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** What another algorithm with the same numbers would have refused, were the limit alone. */
export interface ComparedAlgorithm {
  readonly algorithm: string;
  /** Undefined where the numbers are beyond the algorithm, as `problem` says. */
  readonly policy?: Policy;
  readonly problem?: string;
  readonly refused?: number;
  readonly refusedShare?: number;
}

export interface LimitReport {
  readonly name: string;
  readonly policy: Policy;
  readonly by: NonNullable<FileLimit['by']>;
  readonly match?: FileLimit['match'];
  /** Whether it only reports. */
  readonly shadow: boolean;
  /** Requests that it applied to. */
  readonly requests: number;
  /** Requests that it would have refused, or did as a shadow. */
  readonly refused: number;
  readonly refusedShare: number;
  /** Requests that matched and had no key; the limit does not apply to them. */
  readonly withoutKey: number;
  /** Requests that a concurrency limit could not judge, since the log does not say how long they took. */
  readonly withoutDuration: number;
  readonly top: readonly RefusedKey[];
  /** Whether every refused key was counted by itself; else counts may be too high, as `atLeast` tells. */
  readonly topIsExact: boolean;
  readonly algorithms?: readonly ComparedAlgorithm[];
}

/** Counts per bucket of time. */
export interface Timelines {
  readonly fromMs: number;
  readonly bucketMs: number;
  readonly admitted: readonly number[];
  readonly refused: readonly number[];
  readonly limits: Readonly<
    Record<string, { readonly requests: readonly number[]; readonly refused: readonly number[] }>
  >;
}

/** What limits would have done to the requests of a log. Plain data; times in milliseconds since the epoch. */
export interface ReplayReport {
  readonly logs: readonly string[];
  readonly lines: number;
  readonly requests: number;
  /** Of the first and last request; undefined where there was none. */
  readonly fromMs?: number;
  readonly toMs?: number;
  /** Requests that all limits together admit. */
  readonly admitted: number;
  readonly refused: number;
  readonly refusedShare: number;
  /** Requests that no limit applied to. */
  readonly unlimited: number;
  /** Lines without a request, such as an application's other messages. */
  readonly otherLines: number;
  readonly badLines: number;
  readonly firstBadLines: readonly BadLine[];
  /** Requests put back into the order of time, and those too late for that, judged at the time the log had reached. */
  readonly sorted: number;
  readonly late: number;
  readonly limits: readonly LimitReport[];
  readonly timeline: Timelines;
}
