import { describe, expect, it, test } from 'vitest';
import { TollgateConfigError } from '../src/errors.ts';
import { addressKey, clientIp } from '../src/http/client-ip.ts';
import { addressOf, type HttpRequest } from '../src/http/request.ts';

function requestFrom(ip?: string, remoteAddress?: string): HttpRequest {
  return { headers: {}, ip, socket: { remoteAddress } };
}

describe('clientIp', () => {
  const key = clientIp();

  it("takes the framework's address before the socket's", () => {
    expect(key(requestFrom('203.0.113.7', '10.0.0.1'))).toBe('203.0.113.7');
    expect(key(requestFrom(undefined, '::ffff:10.0.0.1'))).toBe('10.0.0.1');
  });

  it('groups as its options say', () => {
    const grouped = clientIp({ ipv4Prefix: 24, ipv6Prefix: 48 });
    expect(grouped(requestFrom('203.0.113.7'))).toBe('203.0.113.0/24');
    expect(grouped(requestFrom('2001:db8:1:2::1'))).toBe('2001:db8:1::/48');
  });

  it('gives all that is no address the key of the socket', () => {
    for (const ip of ['unknown', '', ', ,', '1.2.3.4.5', 'a'.repeat(10_000), '203.0.113.7#a']) {
      expect(key(requestFrom(ip, '::ffff:127.0.0.1'))).toBe('127.0.0.1');
    }
  });

  it.each([
    ['no socket', { headers: {} }],
    ['a Unix socket', requestFrom()],
    ['a forged entry on a Unix socket', requestFrom('unknown')],
  ])('throws the mend on %s', (_, request) => {
    expect(() => key(request)).toThrow(TollgateConfigError);
    expect(() => key(request)).toThrow(
      /^by: .*trustProxy.*trust proxy.*everyone\(\).*custom\(…\)$/,
    );
  });

  const ipv4 = 'expected a whole number from 0 to 32, got';
  const ipv6 = 'expected a whole number from 0 to 128, got';
  it.each([
    [{ ipv4Prefix: 33 }, '.ipv4Prefix', `${ipv4} 33`],
    [{ ipv4Prefix: 1.5 }, '.ipv4Prefix', `${ipv4} 1.5`],
    [{ ipv6Prefix: -1 }, '.ipv6Prefix', `${ipv6} -1`],
    [{ ipv6Prefix: 129 }, '.ipv6Prefix', `${ipv6} 129`],
    [{ ipv6Prefix: NaN }, '.ipv6Prefix', `${ipv6} NaN`],
    [{ ipv6Prefix: '56' }, '.ipv6Prefix', `${ipv6} "56" (string)`],
    [{ ipv6Prefix: null }, '.ipv6Prefix', `${ipv6} null`],
    [{ ipv6Subnet: 56 }, '.ipv6Subnet', 'unknown option; there are ipv4Prefix, ipv6Prefix'],
    [56, '', 'expected { ipv4Prefix?, ipv6Prefix? } or nothing, got 56'],
    [null, '', 'expected { ipv4Prefix?, ipv6Prefix? } or nothing, got null'],
  ])('refuses %o', (options, path, problem) => {
    expect(() => clientIp(options as object)).toThrow(
      new TollgateConfigError(`clientIp${path}`, problem),
    );
    expect(() => addressKey('::1', options as object)).toThrow(
      new TollgateConfigError(`addressKey${path}`, problem),
    );
  });
});

test('an address that was forwarded is not mistaken for the proxy, even if it is none', () => {
  expect(addressOf(requestFrom('203.0.113.7', '10.0.0.1'))).toBe('203.0.113.7');
  expect(addressOf(requestFrom(undefined, '10.0.0.1'))).toBe('10.0.0.1');
  expect(addressOf(requestFrom('', '10.0.0.1'))).toBe('');
  expect(addressOf({ headers: {} })).toBeUndefined();
});
