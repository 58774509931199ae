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

/**
 * The slot of a key in a cluster: CRC16 (XMODEM) of what stands in the first pair of braces, or of the whole key.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
 */
export function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc % 16_384;
}
