/** The slots that the keys of a Redis Cluster are spread over. */
export const SLOTS = 16_384;

/** CRC16 as XMODEM reckons it (polynomial 0x1021, from 0), byte by byte. */
const TABLE: Uint16Array = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

/**
 * The slot of a key, as Redis reckons it: of what stands between the first `{` and the first `}` after it, if that is
 * anything, and else of the whole key.
 */
export function slotOf(key: string): number {
  const bytes = Buffer.from(hashed(key));
  let crc = 0;
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ (TABLE[(crc >> 8) ^ byte] as number);
  return crc % SLOTS;
}

function hashed(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** The places in a list of keys, grouped by slot, in the order in which the slots first appear. */
export function placesBySlot(keys: readonly string[]): number[][] {
  const groups = new Map<number, number[]>();
  for (const [place, key] of keys.entries()) {
    const slot = slotOf(key);
    const group = groups.get(slot);
    if (group === undefined) groups.set(slot, [place]);
    else group.push(place);
  }
  return [...groups.values()];
}
