import { show, TollgateConfigError } from './errors.ts';

/** A length of time: a number of milliseconds, or text such as `"250ms"`, `"10s"`, `"10 s"`, `"1m"`, `"2h"`, `"1d"`. */
export type Duration = number | string;

const MS_PER = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const LONGEST_MS = 400 * MS_PER.d;
const FORM = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/;

function toMs(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') return undefined;
  const [, amount, unit] = FORM.exec(value) ?? [];
  return unit === undefined ? undefined : Number(amount) * MS_PER[unit as keyof typeof MS_PER];
}

/**
 * Reads a duration and returns milliseconds that are a whole number of microseconds.
 *
 * @param path names the option in errors.
 * @throws TollgateConfigError for anything that is not a duration above 0 and of at most 400 days.
 */
export function parseDuration(value: unknown, path: string): number {
  const ms = toMs(value);
  if (ms === undefined || Number.isNaN(ms)) {
    throw new TollgateConfigError(
      path,
      `expected a duration, a number of milliseconds or text like "10s", got ${show(value)}`,
    );
  }
  if (ms <= 0) {
    throw new TollgateConfigError(path, `expected a duration above 0, got ${show(value)}`);
  }
  if (ms > LONGEST_MS) {
    throw new TollgateConfigError(path, `expected at most 400 days, got ${show(value)}`);
  }
  const us = Math.round(ms * 1_000);
  // A number is read as the whole microseconds that it is the closest number to.
  if (us === 0 || (us / 1_000 !== ms && Math.abs(us - ms * 1_000) > 1e-6)) {
    throw new TollgateConfigError(
      path,
      `expected a whole number of microseconds, got ${show(value)}; the nearest is ${Math.max(1, us) / 1_000} (ms)`,
    );
  }
  return us / 1_000;
}
