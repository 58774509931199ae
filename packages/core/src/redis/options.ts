import { show, TollgateConfigError } from '../errors.ts';
import { refuseUnknown } from '../limits.ts';
import { type BreakerOptions, checkGuard } from './breaker.ts';

export interface RedisStoreOptions {
  /** Default `"tollgate:"`. */
  readonly prefix?: string;
  /** How long a call may take, in milliseconds; default 100. */
  readonly deadlineMs?: number;
  readonly breaker?: BreakerOptions;
  /**
   * Puts the keys of a request into one slot of a cluster, and so into one call: keys with the same text go together. It
   * is given the keys of a call by their limits' names. Calls that name a request's keys again (`peek`, `refund`,
   * `reset`) must pass those it reads.
   */
  readonly hashTag?: (keys: Readonly<Record<string, string>>) => string | undefined;
  /** Whether calls made while another is under way go as one; default true. */
  readonly batch?: boolean;
  /** `"own"` duplicates the client once, with safe settings; `"shared"` uses it as it is. Default `"own"`. */
  readonly connection?: 'own' | 'shared';
  /** For tests: integer microseconds since the epoch. Default Redis' own clock. */
  readonly clock?: () => number;
}

const OPTIONS = [
  'prefix',
  'deadlineMs',
  'breaker',
  'hashTag',
  'batch',
  'connection',
  'clock',
] as const;

/** @throws TollgateConfigError for an option that cannot work. */
export function checkOptions(options: RedisStoreOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected the store's options, got ${show(options)}`);
  }
  refuseUnknown(options, OPTIONS, '');
  const { prefix, deadlineMs, hashTag, connection, clock } = options;
  if (prefix !== undefined && typeof prefix !== 'string') {
    throw new TollgateConfigError('prefix', `expected a text, got ${show(prefix)}`);
  }
  checkGuard(deadlineMs, options.breaker);
  for (const [name, value] of Object.entries({ hashTag, clock })) {
    if (value !== undefined && typeof value !== 'function') {
      throw new TollgateConfigError(name, `expected a function, got ${show(value)}`);
    }
  }
  if (hashTag !== undefined && prefix?.includes('{') === true) {
    throw new TollgateConfigError(
      'prefix',
      'a "{" in it decides the slot of every key, so that hashTag cannot; leave one of them out',
    );
  }
  if (connection !== undefined && connection !== 'own' && connection !== 'shared') {
    throw new TollgateConfigError(
      'connection',
      `expected "own" or "shared", got ${show(connection)}`,
    );
  }
}
