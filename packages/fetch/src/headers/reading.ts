import { readFamily } from './families.ts';
import { type Family, Fields, type ServerLimit } from './fields.ts';
import { parseDecimal, parseHttpDate } from './times.ts';

/** What the header fields of an answer say of the server's limits. */
export interface RateLimitReading {
  /** The fields that the limits were read from; undefined where there are none. */
  readonly family: Family | undefined;
  readonly limits: readonly ServerLimit[];
  /** What `Retry-After` says, in milliseconds; undefined where it says nothing that can be read. */
  readonly retryAfterMs: number | undefined;
  /**
   * How long to send nothing, in milliseconds: what `Retry-After` says, or else the longest reset of a limit of which
   * nothing remains. 0 when the server asks for no wait; undefined when it refused and named no time.
   */
  readonly waitMs: number | undefined;
  /** The fields, and the members of fields, that were ignored because they are malformed. */
  readonly ignored: readonly string[];
}

/**
 * Reads what an answer says of the server's limits. Never throws: what is malformed is ignored.
 *
 * @param now in milliseconds since the epoch, for a server that sends no `Date`.
 */
export function readRateLimit(
  response: Pick<Response, 'headers' | 'status'>,
  now: number = Date.now(),
): RateLimitReading {
  const fields = new Fields(response.headers, now);
  const { family, limits } = readFamily(fields);
  const retryAfterMs = readRetryAfter(fields);
  const resets = limits.flatMap(({ remaining, resetMs }) =>
    remaining === 0 && resetMs !== undefined ? [resetMs] : [],
  );
  const refused = response.status === 429 || response.status === 503;
  const resetMs = resets.length === 0 ? undefined : Math.max(...resets);
  return {
    family,
    limits,
    retryAfterMs,
    waitMs: retryAfterMs ?? resetMs ?? (refused ? undefined : 0),
    ignored: fields.ignored,
  };
}

function readRetryAfter(fields: Fields): number | undefined {
  const inMs = fields.get('retry-after-ms');
  if (inMs !== undefined) {
    const ms = parseDecimal(inMs);
    if (ms !== undefined) return ms;
    fields.ignore('retry-after-ms');
  }
  const text = fields.get('retry-after');
  if (text === undefined) return undefined;
  const seconds = parseDecimal(text);
  if (seconds !== undefined) return seconds * 1_000;
  const date = parseHttpDate(text, fields.now);
  return date === undefined ? fields.ignore('retry-after') : Math.max(0, date - fields.now);
}
