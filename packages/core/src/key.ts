import { createHash } from 'node:crypto';
import { show, TollgateArgumentError } from './errors.ts';

const LONGEST_BYTES = 256;
/** No UTF-16 code unit takes more bytes than this in UTF-8. */
const BYTES_PER_UNIT = 3;
const MARK = 'sha256:';
const MARK_UNIT = MARK.charCodeAt(0);
const PLAIN_UNITS = Math.floor(LONGEST_BYTES / BYTES_PER_UNIT);

/**
 * A key as stores hold it: itself, or a hash where it is longer than 256 bytes in UTF-8. A key that looks like such a
 * hash is hashed too, so that nobody can name another's long key.
 *
 * @throws TollgateArgumentError for anything but a non-empty string.
 */
export function canonicalKey(key: unknown, name: string): string {
  // Nearly every key leaves here: short, and not even the first letter of the mark.
  const isPlain =
    typeof key === 'string' &&
    key.length > 0 &&
    key.length <= PLAIN_UNITS &&
    key.charCodeAt(0) !== MARK_UNIT;
  return isPlain ? key : checkedKey(key, name);
}

function checkedKey(key: unknown, name: string): string {
  if (typeof key !== 'string' || key === '') {
    throw new TollgateArgumentError(
      `The key of ${name} must be a non-empty string, or undefined where the limit does not apply; got ${show(key)}.`,
    );
  }
  if (Buffer.byteLength(key) <= LONGEST_BYTES && !key.startsWith(MARK)) return key;
  // UTF-16, since UTF-8 would write every lone surrogate alike.
  return MARK + createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url');
}
