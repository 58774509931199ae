import { shownKey } from '../shown-key.ts';

/** How keys may be shown: as they are, hashed, or not at all. */
export type LogKeys = 'clear' | 'hash' | false;

/** A key as lists show it. One that UTF-8 cannot write ends in `…` and a hash. */
export function listedKey(key: string, logKeys: LogKeys): string {
  if (logKeys === false) return '';
  if (logKeys === 'hash' || key.isWellFormed()) return shownKey(key, logKeys);
  // UTF-8 would write every lone surrogate alike.
  return `${key.toWellFormed()}…${shownKey(JSON.stringify(key), 'hash')}`;
}
