import { createHash } from 'node:crypto';
import type { Charge } from '../store.ts';

/** The layout of what is stored. Another layout starts fresh under keys of its own. */
const LAYOUT = '1';

const TAGS = {
  'token-bucket': 't',
  'leaky-bucket': 'l',
  'fixed-window': 'f',
  'sliding-window': 's',
  'sliding-log': 'g',
  concurrency: 'c',
} as const;

export const ALL_TAGS: readonly (keyof typeof TAGS)[] = Object.keys(TAGS) as (keyof typeof TAGS)[];

/**
 * The name of a key in Redis: the prefix, the hash tag, the layout, the algorithm, the limit and its key. An empty hash
 * tag makes Redis hash the whole name, so that braces in users' keys mean nothing.
 */
export function redisKey(
  prefix: string,
  hashTag: string,
  algorithm: keyof typeof TAGS,
  { name, key }: Pick<Charge, 'name' | 'key'>,
): string {
  return `${prefix}{${hashTag}}${LAYOUT}${TAGS[algorithm]}:${name}:${wellFormed(key)}`;
}

/** UTF-8 has no lone surrogates and would write them all alike, so keys that have any are hashed, as long ones are. */
function wellFormed(key: string): string {
  if (key.isWellFormed()) return key;
  return `sha256:${createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url')}`;
}
