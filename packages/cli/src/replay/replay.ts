import { type FileLimit, parseLimits, type PolicyInput } from '@tollgate/core';
import { bytesOf, logSource } from '../log/bytes.ts';
import { readCommon } from '../log/common-log.ts';
import { InOrder } from '../log/in-order.ts';
import { readJson } from '../log/json.ts';
import { eachLine } from '../log/lines.ts';
import type { LogRequest, Read } from '../log/request.ts';
import { Judge } from './judge.ts';
import { share } from './limit-judge.ts';
import type { BadLine, ReplayReport } from './report.ts';

/** A limit as a limits file has it. */
export interface ReplayLimit extends Omit<FileLimit, 'policy'> {
  readonly policy: PolicyInput;
}

export interface ReplayOptions {
  /** Those of a limits file, such as `loadLimits` returns them, or written by hand. */
  readonly limits: readonly ReplayLimit[];
  /** Whether each limit is also tried as every algorithm; default false. */
  readonly compare?: boolean;
  /** Refused keys told of per limit; default 10, at most 1,000. */
  readonly top?: number;
  /** Requests among which lines out of order are sorted; default 10,000. */
  readonly reorder?: number;
  /** Told now and then how far the reading is: bytes read, of all where that is known, and lines. */
  readonly onProgress?: (progress: Progress) => void;
}

export interface Progress {
  readonly bytes: number;
  /** Undefined where a log's length is not known. */
  readonly allBytes: number | undefined;
  readonly lines: number;
}

const OPEN_BRACE = 0x7b;
const SPACE = 0x20;
const SHOWN_BAD_LINES = 5;
const SHOWN_TEXT = 120;

/** Reads a line of any format that is known: JSON begins with a brace, and nothing else does. */
export function readLine(text: string, from: number, end: number): Read {
  let start = from;
  while (start < end && text.charCodeAt(start) === SPACE) start++;
  return text.charCodeAt(start) === OPEN_BRACE
    ? readJson(text.slice(start, end))
    : readCommon(text, start, end);
}

/**
 * Tells what limits would have done to the requests of access logs: common or combined format, or JSON lines, plain or
 * gzip, read one after the other in bounded memory. All limits of a request are decided together, as a gate decides
 * them, with the log's clock.
 *
 * @param paths files; `-` is standard input.
 * @throws TollgateConfigError for a limit that cannot work, UnreadableLogError for a log that cannot be read to its end.
 */
export async function replay(
  paths: readonly string[],
  options: ReplayOptions,
): Promise<ReplayReport> {
  const { compare = false, top = 10, reorder = 10_000, onProgress } = options;
  // Data like a file's, whose durations may still be texts.
  const limits = parseLimits(JSON.stringify({ limits: options.limits }));
  const judge = new Judge(limits, compare);
  const inOrder = new InOrder<LogRequest>(reorder, (request, time) => judge.judge(request, time));
  const sources = paths.map(logSource);
  const allBytes = sources.reduce<number | undefined>(
    (sum, { size }) => (sum === undefined || size === undefined ? undefined : sum + size),
    0,
  );
  const firstBadLines: BadLine[] = [];
  let [bytes, lines, badLines, otherLines] = [0, 0, 0, 0];

  for (const source of sources) {
    let line = 0;
    const chunks = bytesOf(source, (count) => {
      bytes += count;
      onProgress?.({ bytes, allBytes, lines });
    });
    await eachLine(chunks, (text, from, end) => {
      line++;
      lines++;
      const read = readLine(text, from, end);
      if (typeof read === 'string') {
        badLines++;
        if (firstBadLines.length < SHOWN_BAD_LINES) {
          const shown = text.slice(from, Math.min(end, from + SHOWN_TEXT));
          firstBadLines.push({ log: source.name, line, reason: read, text: shown });
        }
      } else if (read === null) otherLines++;
      else inOrder.push(read, read.time);
    });
  }
  inOrder.flush();

  const refused = judge.requests - judge.admitted;
  return {
    logs: sources.map(({ name }) => name),
    lines,
    requests: judge.requests,
    ...(judge.from !== undefined && { fromMs: judge.from / 1_000 }),
    ...(judge.to !== undefined && { toMs: judge.to / 1_000 }),
    admitted: judge.admitted,
    refused,
    refusedShare: share(refused, judge.requests),
    unlimited: judge.unlimited,
    otherLines,
    badLines,
    firstBadLines,
    sorted: inOrder.sorted,
    late: inOrder.late,
    limits: judge.limitReports(top),
    timeline: judge.timelines(),
  };
}
