import type { LimitReport, ReplayReport } from '../replay/report.ts';
import { cut, printable } from './printable.ts';
import {
  algorithmText,
  byText,
  count,
  counted,
  duration,
  instant,
  matchText,
  percent,
  policyText,
  span,
} from './words.ts';

const LONGEST_KEY = 60;

/** A report as text for a terminal. */
export function textReport(report: ReplayReport): string {
  const parts = [summary(report), ...report.limits.map((limit) => limitText(limit, report))];
  return `${parts.join('\n\n')}\n`;
}

function summary(report: ReplayReport): string {
  const { requests, fromMs, toMs, admitted, refused, refusedShare } = report;
  const lines = [`${report.logs.map(printable).join(', ')}: ${counted(report.lines, 'line')}`];
  if (fromMs === undefined || toMs === undefined) lines.push('  no requests');
  else {
    lines.push(`  ${counted(requests, 'request')}, ${span(fromMs, toMs)} UTC`);
    lines.push(
      `  ${count(admitted)} admitted, ${count(refused)} refused (${percent(refusedShare)}) by all limits together`,
    );
  }
  lines.push(...notes(report).map((note) => `  ${note}`));
  for (const { log, line, reason, text } of report.firstBadLines) {
    lines.push(`    ${printable(log)}:${line}: ${reason}: ${printable(text)}`);
  }
  return lines.join('\n');
}

/** What a reader should know before he believes the numbers. */
export function notes(report: ReplayReport): string[] {
  const { unlimited, otherLines, sorted, late, badLines } = report;
  return [
    unlimited > 0 && `${counted(unlimited, 'request')} that no limit applies to`,
    otherLines > 0 && `${counted(otherLines, 'line')} without a request`,
    sorted > 0 && `${counted(sorted, 'request')} put in order of time`,
    late > 0 &&
      `${counted(late, 'request')} too late for that, judged at the time the log had reached`,
    badLines > 0 && `${counted(badLines, 'bad line')}, left out`,
  ].filter((note) => note !== false);
}

/** What a reader should know before he believes the numbers of a limit. */
export function limitNotes({ withoutKey, withoutDuration }: LimitReport): string[] {
  return [
    withoutKey > 0 && `${counted(withoutKey, 'request')} without a key, not limited`,
    withoutDuration > 0 &&
      `${counted(withoutDuration, 'request')} not judged: the log does not say how long they took`,
  ].filter((note) => note !== false);
}

function limitText(limit: LimitReport, { timeline }: ReplayReport): string {
  const { name, policy, by, match, shadow, requests, refused, refusedShare, top } = limit;
  const matched = match === undefined ? '' : `, on ${matchText(match)}`;
  const lines = [
    `${name}: ${policyText(policy)}, by ${byText(by)}${printable(matched)}${shadow ? ' (shadow)' : ''}`,
    `  ${counted(requests, 'request')}, ${count(refused)} refused (${percent(refusedShare)})`,
  ];
  const counts = timeline.limits[name]?.refused ?? [];
  const most = counts.reduce((max, each) => Math.max(max, each), 0);
  if (most > 0) {
    const at = timeline.fromMs + counts.indexOf(most) * timeline.bucketMs;
    lines.push(
      `  most in ${duration(timeline.bucketMs)}: ${count(most)} refused, from ${instant(at)} on`,
    );
  }
  lines.push(...limitNotes(limit).map((note) => `  ${note}`));
  if (top.length > 0) {
    lines.push(
      `  most refused keys${limit.topIsExact ? '' : ' (counts may be too high by what is behind ±)'}:`,
    );
    const keys = top.map(({ key }) => cut(printable(key), LONGEST_KEY));
    const width = Math.max(...keys.map((key) => key.length));
    for (const [i, { refused: times, atLeast, firstMs, lastMs }] of top.entries()) {
      const doubt = times === atLeast ? '' : ` ±${count(times - atLeast)}`;
      lines.push(
        `    ${(keys[i] ?? '').padEnd(width)}  ${count(times).padStart(9)}${doubt}  ${span(firstMs, lastMs)}`,
      );
    }
  }
  if (limit.algorithms !== undefined && limit.algorithms.length > 0) {
    lines.push('  the same numbers, each limit alone:');
    for (const {
      algorithm,
      problem,
      refused: others = 0,
      refusedShare: share = 0,
    } of limit.algorithms) {
      const said = problem ?? `${count(others).padStart(9)} refused (${percent(share)})`;
      lines.push(`    ${algorithmText(algorithm).padEnd(14)}  ${said}`);
    }
  }
  return lines.join('\n');
}
