import { loadLimits } from '@tollgate/core';
import { closeSync, openSync, writeSync } from 'node:fs';
import { ProgressBar } from '../progress.ts';
import { replay } from '../replay/replay.ts';
import { htmlReport } from '../report/html.ts';
import { textReport } from '../report/text.ts';
import { UsageError } from '../usage.ts';
import { parsed, wholeNumber } from './options.ts';

const OPTIONS = {
  limits: { type: 'string' },
  compare: { type: 'boolean' },
  top: { type: 'string' },
  reorder: { type: 'string' },
  html: { type: 'string' },
  json: { type: 'boolean' },
} as const;

/** `tollgate replay`: returns what to print. */
export async function replayCommand(args: readonly string[]): Promise<string> {
  const { values, positionals } = parsed(args, OPTIONS);
  if (positionals.length === 0) throw new UsageError('replay needs an access log.');
  if (values.limits === undefined) throw new UsageError('replay needs --limits <file>.');
  if (positionals.filter((path) => path === '-').length > 1) {
    throw new UsageError('Standard input can be read once.');
  }
  const top = wholeNumber('--top', values.top, 0, 1_000);
  const reorder = wholeNumber('--reorder', values.reorder, 1, 1_000_000);
  const limits = loadLimits(values.limits);
  const { html } = values;
  // Before a long reading, not after it.
  const page = html === undefined ? undefined : openPage(html);
  const bar = new ProgressBar(process.stderr);
  try {
    const report = await replay(positionals, {
      limits,
      compare: values.compare === true,
      ...(top !== undefined && { top }),
      ...(reorder !== undefined && { reorder }),
      onProgress: (progress) => bar.show(progress),
    });
    if (page !== undefined) writeSync(page, htmlReport(report));
    return values.json === true ? `${JSON.stringify(report, null, 2)}\n` : textReport(report);
  } finally {
    bar.clear();
    if (page !== undefined) closeSync(page);
  }
}

function openPage(path: string): number {
  try {
    return openSync(path, 'w');
  } catch (error) {
    throw new UsageError(`--html: ${path} cannot be written: ${(error as Error).message}`);
  }
}
