/** How many leading bits of an address are kept. */
export interface Prefixes {
  /** From 0 to 32. */
  readonly ipv4: number;
  /** From 0 to 128. */
  readonly ipv6: number;
}

export const IPV4_BITS = 32;
export const IPV6_BITS = 128;
const GROUPS = 8;
const GROUP_BITS = 16;
const LAST_PORT = 65_535;
const LONGEST_IPV6 = 'ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255'.length;
/** How Node writes every IPv4 client of a server that listens on `::`. */
const MAPPED = '::ffff:';

const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const LOWER_A = 0x61;

/** The groups of the IPv6 address that was read last: nothing awaits between reading and writing. */
const groups = new Uint16Array(GROUPS);

/**
 * Writes an address in its one canonical form, cut to a prefix, or returns undefined where the text is no address. A
 * port or a zone id behind it is dropped.
 *
 * IPv4 is on the path of every request: one scan, and where nothing is to be dropped the same string back.
 */
export function canonicalAddress(text: string, prefixes: Prefixes): string | undefined {
  const from = text.charCodeAt(0) === COLON && text.startsWith(MAPPED) ? MAPPED.length : 0;
  const end = ipv4End(text, from);
  if (end === -1) return canonicalIpv6(text, prefixes);
  if (end !== text.length && !isPort(text, end)) return undefined;
  if (prefixes.ipv4 < IPV4_BITS) return writeIpv4(ipv4Bits(text, from, end), prefixes.ipv4);
  return text.slice(from, end);
}

function canonicalIpv6(text: string, prefixes: Prefixes): string | undefined {
  let from = 0;
  let end = text.length;
  if (text.charCodeAt(0) === OPEN_BRACKET) {
    from = 1;
    end = text.indexOf(']');
    if (end === -1 || (end + 1 < text.length && !isPort(text, end + 1))) return undefined;
  }
  const zone = text.indexOf('%');
  if (zone !== -1) {
    if (zone + 1 === end) return undefined;
    end = zone;
  }
  if (end - from > LONGEST_IPV6 || !readIpv6(text, from, end)) return undefined;
  if (holdsIpv4()) return writeIpv4((group(6) << GROUP_BITS) | group(7), prefixes.ipv4);
  return writeIpv6(prefixes.ipv6);
}

/** Where the dotted form that begins at `from` ends, or -1 where there is none. */
function ipv4End(text: string, from: number): number {
  let parts = 1;
  let digits = 0;
  let value = 0;
  let at = from;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const digit = code - ZERO;
    if (digit >= 0 && digit <= 9) {
      // A leading zero means octal to some: 010.0.0.1 would be two addresses, so it is none.
      if (digits > 0 && value === 0) return -1;
      value = value * 10 + digit;
      if (value > 255) return -1;
      digits++;
    } else if (code === DOT && digits > 0 && parts < 4) {
      parts++;
      digits = 0;
      value = 0;
    } else {
      break;
    }
  }
  return parts === 4 && digits > 0 ? at : -1;
}

/** The 32 bits, as a signed number, of a dotted form whose end `ipv4End` has found. */
function ipv4Bits(text: string, from: number, end: number): number {
  let bits = 0;
  let value = 0;
  for (let at = from; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code === DOT) {
      bits = (bits << 8) | value;
      value = 0;
    } else {
      value = value * 10 + code - ZERO;
    }
  }
  return (bits << 8) | value;
}

function writeIpv4(bits: number, prefix: number): string {
  // JavaScript shifts by 32 as by 0.
  const kept = prefix === 0 ? 0 : bits & (-1 << (IPV4_BITS - prefix));
  const text = `${kept >>> 24}.${(kept >>> 16) & 255}.${(kept >>> 8) & 255}.${kept & 255}`;
  return prefix === IPV4_BITS ? text : `${text}/${prefix}`;
}

/** Whether the text from `at` on is a colon and a port. */
function isPort(text: string, at: number): boolean {
  const digits = text.length - at - 1;
  if (text.charCodeAt(at) !== COLON || digits < 1 || digits > 5) return false;
  let port = 0;
  for (let i = at + 1; i < text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO;
    if (digit < 0 || digit > 9) return false;
    port = port * 10 + digit;
  }
  return port <= LAST_PORT;
}

/** Reads an address into `groups`, and says whether it is one. */
function readIpv6(text: string, from: number, end: number): boolean {
  let count = 0;
  let gap = -1;
  let start = from;
  let value = 0;
  for (let at = from; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code === COLON) {
      if (at > start) groups[count++] = value;
      else if (at > from) return false;
      value = 0;
      start = at + 1;
      if (gap === -1 && text.charCodeAt(start) === COLON) {
        gap = count;
        at++;
        start++;
      } else if (count === 0) {
        return false;
      }
    } else if (code === DOT) {
      if (ipv4End(text, start) !== end) return false;
      const bits = ipv4Bits(text, start, end);
      groups[count++] = bits >> GROUP_BITS;
      // The array keeps 16 bits of either.
      value = bits;
      break;
    } else {
      const digit = hexDigit(code);
      if (digit === -1 || at - start === 4) return false;
      value = value * 16 + digit;
    }
  }
  if (start < end) groups[count++] = value;
  else if (gap !== count) return false;
  if (gap === -1) return count === GROUPS;
  if (count >= GROUPS) return false;
  // What stands behind the gap moves to the end.
  const shift = GROUPS - count;
  for (let i = count - 1; i >= gap; i--) groups[i + shift] = group(i);
  for (let i = gap; i < gap + shift; i++) groups[i] = 0;
  return true;
}

function hexDigit(code: number): number {
  const digit = code - ZERO;
  if (digit >= 0 && digit <= 9) return digit;
  // The bit 0x20 makes an ASCII letter lower case.
  const letter = (code | 0x20) - LOWER_A;
  return letter >= 0 && letter <= 5 ? letter + 10 : -1;
}

function group(index: number): number {
  return groups[index] as number;
}

/** Whether `groups` is IPv4 in other words: mapped (::ffff:0:0/96) or behind a NAT64 (64:ff9b::/96). */
function holdsIpv4(): boolean {
  if ((group(2) | group(3) | group(4)) !== 0) return false;
  const mapped = group(0) === 0 && group(1) === 0 && group(5) === 0xff_ff;
  return mapped || (group(0) === 0x64 && group(1) === 0xff_9b && group(5) === 0);
}

/** Writes `groups`, cut to a prefix, as RFC 5952 says: lower case, the longest run of zeros left out. */
function writeIpv6(prefix: number): string {
  const whole = prefix >>> 4;
  if (whole < GROUPS) {
    groups[whole] = group(whole) & ~(0xff_ff >>> (prefix & 15));
    for (let i = whole + 1; i < GROUPS; i++) groups[i] = 0;
  }
  let gap = GROUPS;
  let longest = 1;
  for (let i = 0, run = 0; i < GROUPS; i++) {
    run = group(i) === 0 ? run + 1 : 0;
    if (run > longest) {
      longest = run;
      gap = i - run + 1;
    }
  }
  const head = writeGroups(0, gap);
  const text = gap === GROUPS ? head : `${head}::${writeGroups(gap + longest, GROUPS)}`;
  return prefix === IPV6_BITS ? text : `${text}/${prefix}`;
}

function writeGroups(from: number, end: number): string {
  let text = '';
  for (let i = from; i < end; i++) text += (i > from ? ':' : '') + group(i).toString(16);
  return text;
}
