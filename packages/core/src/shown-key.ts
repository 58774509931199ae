import { createHash } from 'node:crypto';

/** 132 bits in base64url. */
const CHARACTERS = 22;

/** A key as it may be shown. */
export function shownKey(key: string, logKeys: 'clear' | 'hash'): string {
  return logKeys === 'clear'
    ? key
    : createHash('sha256').update(key).digest('base64url').slice(0, CHARACTERS);
}
