import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { TollgateConfigError } from '../src/errors.ts';
import { addressList } from '../src/http/address-list.ts';

const PATH = 'limits[0].allowList';

/** A number of so many bits, near the ones that the others are near. */
function near(bits: number): fc.Arbitrary<bigint> {
  const most = (1n << BigInt(bits)) - 1n;
  return fc
    .tuple(fc.constantFrom(0n, most, most / 3n, most / 5n), fc.nat(bits - 1), fc.bigInt(0n, 3n))
    .map(([base, shift, flip]) => (base ^ (flip << BigInt(shift))) & most);
}

function write(address: bigint, bits: number): string {
  if (bits === 32) return [24n, 16n, 8n, 0n].map((shift) => (address >> shift) & 255n).join('.');
  const groups = [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n].map(
    (shift) => (address >> shift) & 0xff_ffn,
  );
  return groups.map((group) => group.toString(16)).join(':');
}

const family = fc.constantFrom(32, 128).chain((bits) => {
  const range = fc.record({ base: near(bits), prefix: fc.integer({ min: 0, max: bits }) });
  return fc.record({
    bits: fc.constant(bits),
    ranges: fc.array(range, { maxLength: 4 }),
    address: near(bits),
  });
});

it('holds the addresses of its ranges and no others', () => {
  fc.assert(
    fc.property(family, ({ bits, ranges, address }) => {
      const entries = ranges.map(({ base, prefix }) =>
        prefix === bits ? write(base, bits) : `${write(base, bits)}/${prefix}`,
      );
      const holds = ranges.some(({ base, prefix }) => {
        const shift = BigInt(bits - prefix);
        return base >> shift === address >> shift;
      });
      expect(addressList(entries, PATH)(write(address, bits))).toBe(holds);
    }),
    { numRuns: 2_000 },
  );
});

describe('a look-up', () => {
  const listed = addressList(['203.0.113.7', '10.0.0.0/8', '2001:db8::/32', 'fe80::1'], PATH);

  it.each([
    '203.0.113.7',
    '203.0.113.7:40001',
    '::ffff:203.0.113.7',
    '::FFFF:cb00:7107',
    '0:0:0:0:0:ffff:203.0.113.7',
    '[::ffff:203.0.113.7]:80',
    '64:ff9b::203.0.113.7',
    '10.255.0.1',
    '::ffff:a00:1',
    '2001:db8:ffff::1',
    '[2001:DB8::7]:40001',
    'fe80::1%eth0',
  ])('finds %s', (address) => {
    expect(listed(address)).toBe(true);
  });

  it.each(['203.0.113.8', '::203.0.113.7', '11.0.0.1', '2001:db9::1', 'fe80::2%eth0'])(
    'does not find %s',
    (address) => {
      expect(listed(address)).toBe(false);
    },
  );

  it.each([
    undefined,
    '',
    'unknown',
    '10.0.0.1.5',
    '10.0.0.0/8',
    '10.0.0.1, 10.0.0.2',
    'a'.repeat(10_000),
  ])('finds no %j', (address) => {
    expect(addressList(['0.0.0.0/0', '::/0'], PATH)(address)).toBe(false);
  });
});

describe('an entry', () => {
  it.each([
    ['::ffff:203.0.113.7', '203.0.113.7', '203.0.113.8'],
    ['::ffff:203.0.113.0/120', '203.0.113.9', '203.0.114.9'],
    ['::ffff:cb00:7107/128', '203.0.113.7', '203.0.113.8'],
    ['64:ff9b::203.0.113.7', '203.0.113.7', '203.0.113.8'],
    ['64:ff9b::203.0.113.0/120', '64:ff9b::203.0.113.9', '64:ff9b::203.0.114.9'],
    ['::/0', '2001:db8::1', '203.0.113.7'],
    ['0.0.0.0/0', '::ffff:203.0.113.7', '2001:db8::1'],
    // A range is read by its prefix alone.
    ['203.0.113.99/24', '203.0.113.1', '203.0.112.1'],
  ])('%s holds %s and not %s', (entry, inside, outside) => {
    const listed = addressList(['192.0.2.1', entry], PATH);
    expect(listed(inside)).toBe(true);
    expect(listed(outside)).toBe(false);
  });

  it.each([
    '',
    ' 10.0.0.0/8',
    '10.0.0.0/8 ',
    '10.0.0.0/',
    '10.0.0.0/08',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/255.0.0.0',
    '10.0.0.1-10.0.0.9',
    '10.*',
    '10.0.0.1:80',
    '10.0.0.1:80/32',
    '::ffff:10.0.0.1:80',
    '[::1]',
    '[::1]:80',
    'fe80::1%eth0',
    'fe80::1%eth0/64',
    'localhost',
    '300.0.0.1',
    undefined,
    null,
    7,
    ['10.0.0.1'],
  ])('%j is refused by its place', (entry) => {
    expect(() => addressList(['10.0.0.1', entry as string], PATH)).toThrow(TollgateConfigError);
    expect(() => addressList(['10.0.0.1', entry as string], PATH)).toThrow(
      /^limits\[0\]\.allowList\[1\]: expected an address or a CIDR range such as .* got /,
    );
  });

  it.each([
    ['10.0.0.0/33', 'expected a prefix from 0 to 32, got "10.0.0.0/33" (string)'],
    ['::1/129', 'expected a prefix from 0 to 128, got "::1/129" (string)'],
    ['::ffff:10.0.0.0/129', 'expected a prefix from 0 to 128, got "::ffff:10.0.0.0/129" (string)'],
    [
      '::ffff:0:0/96',
      '"::ffff:0:0/96" (string) holds all of IPv4; write 0.0.0.0/0 if that is meant',
    ],
    ['64:ff9b::/96', '"64:ff9b::/96" (string) holds all of IPv4; write 0.0.0.0/0 if that is meant'],
    [
      '::ffff:1.2.3.4/8',
      '"::ffff:1.2.3.4/8" (string) holds all of IPv4; write 0.0.0.0/0 if that is meant',
    ],
  ])('%s is refused with the mend', (entry, problem) => {
    expect(() => addressList([entry], PATH)).toThrow(
      new TollgateConfigError(`${PATH}[0]`, problem),
    );
  });
});

test('an empty list holds nothing', () => {
  const listed = addressList([], PATH);
  for (const address of ['0.0.0.0', '::', '203.0.113.7', undefined]) {
    expect(listed(address)).toBe(false);
  }
});

test.each(['10.0.0.1', undefined, null, new Set(['10.0.0.1'])])('%o is no list', (entries) => {
  expect(() => addressList(entries as unknown as string[], PATH)).toThrow(
    /^limits\[0\]\.allowList: expected an array of addresses and CIDR ranges, got /,
  );
});
