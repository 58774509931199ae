import { BlockList, isIP } from 'node:net';
import { show, TollgateConfigError } from '../errors.ts';
import { addressKey, type ClientIpOptions } from './client-ip.ts';

const WHOLE: ClientIpOptions = { ipv4Prefix: 32, ipv6Prefix: 128 };
/** Bits in front of the IPv4 address in IPv6 that stands for one. */
const IPV4_IN_IPV6 = 96;
const RANGE = /^([^/]+)\/(0|[1-9]\d{0,2})$/;

interface Range {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly bits: number;
}

/**
 * Makes a look-up of addresses and CIDR ranges, such as `203.0.113.7`, `10.0.0.0/8` and `2001:db8::/32`.
 *
 * Addresses are compared as `addressKey` reads them, on both sides: without port and zone id, and IPv4 written as IPv6
 * (mapped, NAT64) as IPv4. A range of IPv6 therefore never holds IPv4, not even `::/0`. What is no address is in no
 * list, and nothing is in an empty one.
 *
 * @param path names the option in errors.
 * @throws TollgateConfigError naming the entry that is neither an address nor a range.
 */
export function addressList(
  entries: readonly string[],
  path: string,
): (address: string | undefined) => boolean {
  if (!Array.isArray(entries)) {
    throw new TollgateConfigError(
      path,
      `expected an array of addresses and CIDR ranges, got ${show(entries)}`,
    );
  }
  // One list for each family: a BlockList takes IPv4 for a part of ::/0.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const [index, entry] of entries.entries()) {
    const { address, family, bits } = rangeOf(entry, `${path}[${index}]`);
    lists[family].addSubnet(address, bits, family);
  }
  if (entries.length === 0) return () => false;
  return (address) => {
    const whole = addressKey(address, WHOLE);
    if (whole === undefined) return false;
    const family = familyOf(whole);
    return lists[family].check(whole, family);
  };
}

function familyOf(address: string): Range['family'] {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

function rangeOf(entry: unknown, path: string): Range {
  if (typeof entry !== 'string') throw notARange(entry, path);
  const [, base = entry, suffix] = RANGE.exec(entry) ?? [];
  const address = addressKey(base, WHOLE);
  // Stricter than a look-up: nobody means a port or a zone in a list.
  if (address === undefined || isIP(base) === 0 || base.includes('%')) {
    throw notARange(entry, path);
  }
  const family = familyOf(address);
  const written = familyOf(base);
  const most = written === 'ipv4' ? 32 : 128;
  const bits = suffix === undefined ? most : Number(suffix);
  if (bits > most) {
    throw new TollgateConfigError(path, `expected a prefix from 0 to ${most}, got ${show(entry)}`);
  }
  if (family === written) return { address, family, bits };
  if (bits <= IPV4_IN_IPV6) {
    throw new TollgateConfigError(
      path,
      `${show(entry)} holds all of IPv4; write 0.0.0.0/0 if that is meant`,
    );
  }
  return { address, family, bits: bits - IPV4_IN_IPV6 };
}

function notARange(entry: unknown, path: string): TollgateConfigError {
  return new TollgateConfigError(
    path,
    `expected an address or a CIDR range such as "203.0.113.7" or "2001:db8::/32", without port, zone and spaces, got ${show(entry)}`,
  );
}
