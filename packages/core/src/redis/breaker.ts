import { show, TollgateConfigError } from '../errors.ts';
import { refuseUnknown } from '../limits.ts';

export interface BreakerOptions {
  /** Failures in a row after which the store is no longer asked; default 5. */
  readonly failures?: number;
  /** How often a store that is down is probed, in milliseconds; default 250. */
  readonly probeMs?: number;
}

const OPTIONS = ['failures', 'probeMs'] as const;
/** setTimeout and setInterval take 31 bits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** @throws TollgateConfigError for a deadline or a breaker that cannot work. */
export function checkGuard(deadlineMs: unknown, breaker: unknown): void {
  if (deadlineMs !== undefined && !isDuration(deadlineMs)) {
    throw new TollgateConfigError(
      'deadlineMs',
      `expected a number of milliseconds above 0, got ${show(deadlineMs)}`,
    );
  }
  if (breaker === undefined) return;
  if (typeof breaker !== 'object' || breaker === null || Array.isArray(breaker)) {
    throw new TollgateConfigError(
      'breaker',
      `expected options such as { failures: 5, probeMs: 250 }, got ${show(breaker)}`,
    );
  }
  refuseUnknown(breaker, OPTIONS, 'breaker');
  const { failures, probeMs } = breaker as Record<(typeof OPTIONS)[number], unknown>;
  if (failures !== undefined && !(Number.isSafeInteger(failures) && (failures as number) > 0)) {
    throw new TollgateConfigError(
      'breaker.failures',
      `expected a whole number of 1 or more, got ${show(failures)}`,
    );
  }
  if (probeMs !== undefined && !isDuration(probeMs)) {
    throw new TollgateConfigError(
      'breaker.probeMs',
      `expected a number of milliseconds above 0, got ${show(probeMs)}`,
    );
  }
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value > 0 && value <= LONGEST_TIMER_MS;
}
