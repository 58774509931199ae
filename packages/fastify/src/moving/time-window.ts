import { TollgateConfigError } from '@tollgate/core';

const SECOND = 1_000;
const DAY = 86_400 * SECOND;
const LONGEST = 400 * DAY;
const TEXT = /^(\d*\.?\d+) *([a-z]*)$/;

/** The units of their texts, in milliseconds. */
const UNITS: readonly (readonly [words: RegExp, ms: number])[] = [
  [/^(?:ms|msecs?|milliseconds?)?$/, 1],
  [/^(?:s|secs?|seconds?)$/, SECOND],
  [/^(?:m|mins?|minutes?)$/, 60 * SECOND],
  [/^(?:h|hrs?|hours?)$/, 3_600 * SECOND],
  [/^(?:d|days?)$/, DAY],
  [/^(?:w|wks?|weeks?)$/, 7 * DAY],
  [/^(?:y|yrs?|years?)$/, 365.25 * DAY],
];

/**
 * Reads a timeWindow, such as `60_000` or `"1 minute"`, and returns milliseconds.
 *
 * @throws TollgateConfigError for a function, and for what is not from 1 ms to 400 days.
 */
export function windowOf(timeWindow: unknown): number {
  const ms = typeof timeWindow === 'string' ? msOf(timeWindow) : timeWindow;
  if (typeof ms === 'number' && ms >= 1 && ms <= LONGEST) return ms;
  throw new TollgateConfigError(
    'timeWindow',
    typeof timeWindow === 'function'
      ? 'leave it out; write policy: (request) => fixedWindow({ limit, window }) in the limit'
      : `expected milliseconds or a text like "1 minute", from 1 to 400 days, got ${String(timeWindow)}`,
  );
}

function msOf(text: string): number | undefined {
  const [, amount, unit = ''] = TEXT.exec(text.toLowerCase()) ?? [];
  const [, ms] = UNITS.find(([words]) => words.test(unit)) ?? [];
  return amount === undefined || ms === undefined ? undefined : Number(amount) * ms;
}
