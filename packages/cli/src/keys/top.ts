import type { RefusedKey } from '@tollgate/core';
import { parsed, wholeNumber } from '../commands/options.ts';
import { printable } from '../report/printable.ts';
import { count, span } from '../report/words.ts';
import { UsageError } from '../usage.ts';
import { SHARED } from './options.ts';
import { openStore } from './store.ts';
import { limitsOf } from './target.ts';

const OPTIONS = { ...SHARED, count: { type: 'string' }, hours: { type: 'string' } } as const;

/** `tollgate keys top`: the keys that the fleet refused most. */
export async function topCommand(args: readonly string[]): Promise<string> {
  const { values, positionals } = parsed(args, OPTIONS);
  if (positionals.length > 0) {
    throw new UsageError('keys top takes no key; name a limit with --limit <name>.');
  }
  const most = wholeNumber('--count', values.count, 1, 200) ?? 20;
  const hours = wholeNumber('--hours', values.hours, 1, 24) ?? 24;
  const names = limitsOf(values)?.map(({ name }) => name);
  const { store, close } = await openStore('top', values);
  try {
    const keys = await store.mostRefused(names, most, hours);
    if (values.json === true) return `${JSON.stringify({ hours, keys }, null, 2)}\n`;
    return topText(keys, hours);
  } finally {
    close();
  }
}

function topText(keys: readonly RefusedKey[], hours: number): string {
  const since = hours === 1 ? 'in the last hour' : `in the last ${hours} hours`;
  if (keys.length === 0) return `Nothing was refused ${since}.\n`;
  const limits = [...new Set(keys.map(({ limit }) => limit))];
  const parts = limits.map((limit) => {
    const own = keys.filter((each) => each.limit === limit);
    const shadow = own[0]?.shadow === true ? ' (shadow: would be refused)' : '';
    return `${limit}${shadow}, most refused ${since}:\n${rows(own)}`;
  });
  return parts.join('\n');
}

function rows(keys: readonly RefusedKey[]): string {
  const cells = keys.map((each) => [
    each.key === '' ? '(no keys kept)' : printable(each.key),
    `${count(each.count)}${each.errorBound === 0 ? '' : ` +${count(each.errorBound)}?`}`,
    `${perMinute(each.perMinute)}/min`,
    `${span(Math.floor(each.firstAtMs), Math.floor(each.lastAtMs))} UTC`,
  ]);
  const width = (column: number): number =>
    Math.max(...cells.map((row) => (row[column] ?? '').length));
  return cells
    .map(
      ([key = '', times = '', rate = '', when = '']) =>
        `  ${key.padEnd(width(0))}  ${times.padStart(width(1))}  ${rate.padStart(width(2))}  ${when}\n`,
    )
    .join('');
}

function perMinute(rate: number): string {
  return count(rate < 10 ? Math.round(rate * 10) / 10 : Math.round(rate));
}
