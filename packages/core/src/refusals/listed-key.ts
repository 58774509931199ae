import { shownKey } from '../shown-key.ts';

/** How keys may be shown: as they are, hashed, or not at all. */
export type LogKeys = 'clear' | 'hash' | false;

const LONGEST = 256;
const CUT = 200;

/** A key as lists show it. Long ones are cut, and those that UTF-8 cannot write changed: both end in `…` and a hash. */
export function listedKey(key: string, logKeys: LogKeys): string {
  if (logKeys === false) return '';
  if (logKeys === 'hash' || (key.length <= LONGEST && key.isWellFormed())) {
    return shownKey(key, logKeys);
  }
  return `${key.slice(0, CUT).toWellFormed()}…${shownKey(key, 'hash')}`;
}
