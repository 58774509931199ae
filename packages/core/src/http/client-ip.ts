import { show, TollgateConfigError } from '../errors.ts';
import { refuseUnknown } from '../limits.ts';
import { canonicalAddress, IPV4_BITS, IPV6_BITS, type Prefixes } from './ip-address.ts';
import type { HttpRequest } from './request.ts';

/** How many leading bits of an address tell clients apart. */
export interface ClientIpOptions {
  /** From 0 to 32; default 32, every address for itself. */
  readonly ipv4Prefix?: number;
  /** From 0 to 128; default 56, since a subscriber is commonly given all of a /64 or a /56. */
  readonly ipv6Prefix?: number;
}

const DEFAULTS: Prefixes = { ipv4: IPV4_BITS, ipv6: 56 };

/**
 * Keys a limit by the client's address as the framework sees it, in the form that `addressKey` gives it.
 *
 * An address that is none, such as a forged entry of `X-Forwarded-For`, counts as the socket's own, so that all such
 * callers share one budget.
 *
 * @throws TollgateConfigError for a prefix out of range, and when a request has no address at all, as on a Unix socket:
 * clients that cannot be told apart must not share one budget unasked.
 */
export function clientIp<R extends HttpRequest = HttpRequest>(
  options?: ClientIpOptions,
): (request: R) => string {
  const prefixes = prefixesOf(options, 'clientIp');
  return (request) => {
    const key = keyOf(request.ip, prefixes) ?? keyOf(request.socket?.remoteAddress, prefixes);
    if (key !== undefined) return key;
    throw new TollgateConfigError(
      'by',
      'the request has no client address: it came through a Unix socket, or its client is gone already. Trust the ' +
        "proxy in front so that the framework sees the client (Fastify's trustProxy, Express's trust proxy), or " +
        'choose by: everyone() or by: custom(…)',
    );
  };
}

/**
 * Writes an address so that one client has one key: `203.0.113.7`, `2001:db8:1:200::/56`. Only a prefix shorter than
 * the address is written behind it.
 *
 * Ports and zone ids are dropped (`203.0.113.7:40001`, `[2001:db8::7]:40001`, `fe80::1%eth0`). IPv4 written as IPv6 is
 * IPv4, in any notation: all of `::ffff:0:0/96` (mapped) and of `64:ff9b::/96` (NAT64, where a single /56 would hold
 * all of IPv4). Every other address that ends in dotted form is an IPv6 address.
 *
 * @returns undefined for anything that is not an address. From `custom()` that would lift the limit, so say what counts
 * instead: `firstOf(custom((request) => addressKey(…)), clientIp())`.
 * @throws TollgateConfigError for a prefix out of range.
 */
export function addressKey(
  address: string | undefined,
  options?: ClientIpOptions,
): string | undefined {
  return keyOf(address, prefixesOf(options, 'addressKey'));
}

function keyOf(address: unknown, prefixes: Prefixes): string | undefined {
  return typeof address === 'string' ? canonicalAddress(address, prefixes) : undefined;
}

function prefixesOf(options: ClientIpOptions | undefined, path: string): Prefixes {
  if (options === undefined) return DEFAULTS;
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError(
      path,
      `expected { ipv4Prefix?, ipv6Prefix? } or nothing, got ${show(options)}`,
    );
  }
  refuseUnknown(options, ['ipv4Prefix', 'ipv6Prefix'], path);
  const { ipv4Prefix = DEFAULTS.ipv4, ipv6Prefix = DEFAULTS.ipv6 } = options;
  return {
    ipv4: checkPrefix(ipv4Prefix, IPV4_BITS, `${path}.ipv4Prefix`),
    ipv6: checkPrefix(ipv6Prefix, IPV6_BITS, `${path}.ipv6Prefix`),
  };
}

function checkPrefix(bits: unknown, most: number, path: string): number {
  if (typeof bits === 'number' && Number.isInteger(bits) && bits >= 0 && bits <= most) return bits;
  throw new TollgateConfigError(
    path,
    `expected a whole number from 0 to ${most}, got ${show(bits)}`,
  );
}
