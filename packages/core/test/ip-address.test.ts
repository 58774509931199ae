import { isIP } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { addressKey } from '../src/http/client-ip.ts';

const WHOLE = { ipv6Prefix: 128 };

/** Eight groups with many zeros among them, as in real addresses. */
const groupsOfIpv6 = fc.array(
  fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 0xff_ff })),
  { minLength: 8, maxLength: 8 },
);
const ipv4 = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 });

/** Whether the address stands for IPv4: mapped, or behind a NAT64. */
function standsForIpv4(groups: readonly number[]): boolean {
  const front = groups.slice(0, 6).join();
  return front === '0,0,0,0,0,65535' || front === '100,65435,0,0,0,0';
}

/** All bits of an address, as a number. */
function bitsOf(parts: readonly number[], width: bigint): bigint {
  return parts.reduce((bits, part) => (bits << width) | BigInt(part), 0n);
}

/** One of the many ways to write an address. */
const spelling = groupsOfIpv6.chain((groups) =>
  fc
    .record({
      padded: fc.boolean(),
      upper: fc.boolean(),
      dotted: fc.boolean(),
      gap: fc.option(fc.record({ at: fc.nat(7), most: fc.integer({ min: 1, max: 8 }) })),
      around: fc.constantFrom<(text: string) => string>(
        (text) => text,
        (text) => `${text}%eth0`,
        (text) => `[${text}]`,
        (text) => `[${text}]:40001`,
        (text) => `[${text}%en0]:1`,
      ),
    })
    .map(({ padded, upper, dotted, gap, around }) => {
      const words = groups.map((group) => group.toString(16).padStart(padded ? 4 : 1, '0'));
      if (dotted) {
        const [high, low] = groups.slice(6) as [number, number];
        words.splice(6, 2, [high >> 8, high & 255, low >> 8, low & 255].join('.'));
      }
      let text = words.join(':');
      if (gap !== null) {
        let end = gap.at;
        const last = dotted ? 6 : 8;
        while (end < last && groups[end] === 0 && end - gap.at < gap.most) end++;
        if (end > gap.at) {
          text = `${words.slice(0, gap.at).join(':')}::${words.slice(end).join(':')}`;
        }
      }
      return { groups, plain: text, text: around(upper ? text.toUpperCase() : text) };
    }),
);

describe('an IPv4 address', () => {
  it.each([
    ['203.0.113.7', '203.0.113.7'],
    ['203.0.113.7:40001', '203.0.113.7'],
    ['203.0.113.7:65535', '203.0.113.7'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
  ])('%s is the key %s', (address, key) => {
    expect(addressKey(address)).toBe(key);
  });

  it('is the same string, whatever it is', () => {
    fc.assert(
      fc.property(ipv4, (parts) => {
        expect(addressKey(parts.join('.'))).toBe(parts.join('.'));
      }),
    );
  });

  it('has one key in every notation of its IPv6 forms', () => {
    fc.assert(
      fc.property(ipv4, fc.constantFrom('mapped', 'nat64'), (parts, form) => {
        const [a, b, c, d] = parts as [number, number, number, number];
        const tail = [a * 256 + b, c * 256 + d].map((group) => group.toString(16)).join(':');
        const front =
          form === 'mapped' ? ['0:0:0:0:0:ffff', '::FFFF'] : ['64:ff9b:0:0:0:0', '0064:FF9B:'];
        for (const start of front) {
          for (const end of [tail, parts.join('.')]) {
            expect(addressKey(`${start}:${end}`)).toBe(parts.join('.'));
            expect(addressKey(`[${start}:${end}]:443`)).toBe(parts.join('.'));
          }
        }
      }),
    );
  });

  it('shares a prefix with its neighbours and nobody else', () => {
    const prefix = fc.integer({ min: 0, max: 32 });
    fc.assert(
      fc.property(ipv4, ipv4, prefix, fc.nat(31), (one, other, bits, flipped) => {
        const options = { ipv4Prefix: bits };
        const shift = BigInt(32 - bits);
        const near = [...one];
        near[flipped >> 3] = (near[flipped >> 3] as number) ^ (128 >> (flipped & 7));
        for (const second of [other, near]) {
          const alike = bitsOf(one, 8n) >> shift === bitsOf(second, 8n) >> shift;
          const keys = [one, second].map((parts) => addressKey(parts.join('.'), options));
          expect(keys[0] === keys[1]).toBe(alike);
        }
      }),
    );
  });

  test.each([
    [{ ipv4Prefix: 24 }, '203.0.113.7', '203.0.113.0/24'],
    [{ ipv4Prefix: 24 }, '::ffff:203.0.113.7', '203.0.113.0/24'],
    [{ ipv4Prefix: 0 }, '203.0.113.7', '0.0.0.0/0'],
    [{ ipv4Prefix: 31 }, '255.255.255.255:1', '255.255.255.254/31'],
  ])('with %o, %s is %s', (options, address, key) => {
    expect(addressKey(address, options)).toBe(key);
  });
});

describe('an IPv6 address', () => {
  it.each([
    ['2001:db8:1:2::1', '2001:db8:1::/56'],
    ['2001:db8:1:2ff:ffff:ffff:ffff:ffff', '2001:db8:1:200::/56'],
    ['2001:DB8:1:0200::7', '2001:db8:1:200::/56'],
    ['[2001:db8::7]:40001', '2001:db8::/56'],
    ['fe80::1%eth0', 'fe80::/56'],
    ['::1', '::/56'],
    ['::', '::/56'],
    // It ends in dotted form, and is IPv6 all the same.
    ['2001:db8:1234:5678::203.0.113.7', '2001:db8:1234:5600::/56'],
    ['::203.0.113.7', '::/56'],
    ['::ffff:0:203.0.113.7', '::/56'],
    ['64:ff9b:1::203.0.113.7', '64:ff9b:1::/56'],
  ])('%s is the key %s', (address, key) => {
    expect(addressKey(address)).toBe(key);
  });

  it('is written as URLs write it, in every spelling', () => {
    fc.assert(
      fc.property(spelling, ({ groups, plain, text }) => {
        fc.pre(!standsForIpv4(groups));
        const canonical = new URL(`http://[${plain}]`).hostname.slice(1, -1);
        expect(addressKey(text, WHOLE)).toBe(canonical);
        expect(addressKey(text)).toBe(addressKey(canonical));
      }),
      { numRuns: 2_000 },
    );
  });

  it('is no IPv4 if one bit in front of it is another', () => {
    fc.assert(
      fc.property(fc.constantFrom('::ffff:', '64:ff9b::'), fc.nat(95), (front, flipped) => {
        const groups = front === '::ffff:' ? [0, 0, 0, 0, 0, 0xff_ff] : [0x64, 0xff_9b, 0, 0, 0, 0];
        groups[flipped >> 4] = (groups[flipped >> 4] as number) ^ (1 << (flipped & 15));
        const words = groups.map((group) => group.toString(16)).join(':');
        expect(addressKey(`${front}203.0.113.7`)).toBe('203.0.113.7');
        expect(addressKey(`${words}:203.0.113.7`)).toContain(':');
      }),
      { numRuns: 2_000 },
    );
  });

  it('shares a prefix with its network and nobody else', () => {
    const prefix = fc.integer({ min: 0, max: 128 });
    fc.assert(
      fc.property(groupsOfIpv6, groupsOfIpv6, prefix, fc.nat(127), (one, other, bits, flipped) => {
        const options = { ipv6Prefix: bits };
        const shift = BigInt(128 - bits);
        const near = [...one];
        near[flipped >> 4] = (near[flipped >> 4] as number) ^ (0x80_00 >> (flipped & 15));
        for (const second of [other, near]) {
          fc.pre(!standsForIpv4(one) && !standsForIpv4(second));
          const alike = bitsOf(one, 16n) >> shift === bitsOf(second, 16n) >> shift;
          const keys = [one, second].map((groups) =>
            addressKey(groups.map((group) => group.toString(16)).join(':'), options),
          );
          expect(keys[0] === keys[1]).toBe(alike);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('has a key that is an address itself, with the same key', () => {
    fc.assert(
      fc.property(spelling, fc.integer({ min: 0, max: 128 }), ({ text }, ipv6Prefix) => {
        const key = addressKey(text, { ipv6Prefix }) as string;
        expect(isIP(key.split('/')[0] as string)).not.toBe(0);
        expect(addressKey(key.split('/')[0], { ipv6Prefix })).toBe(key);
      }),
    );
  });
});

describe('what is not an address', () => {
  const junk = [
    '',
    ' ',
    '203.0.113.7 ',
    '1.2.3.4, 5.6.7.8',
    ...'unknown undefined _x {${7*7}} 1.2.3 1.2.3.4.5 1.2.3.4. .1.2.3.4 1..2.3 1.2.3.256'.split(
      ' ',
    ),
    ...'1.2.3.04 00.0.0.0 203.0.113.999 203.0.113.7#a 203.0.113.7: 203.0.113.7:a'.split(' '),
    ...'203.0.113.7:65536 203.0.113.7:000001 203.0.113.7%eth0 203.0.113.7/24'.split(' '),
    ...'[203.0.113.7] [203.0.113.7]:80 : ::: ::1:: 1::2::3 :1:2:3:4:5:6:7 1:2:3:4:5:6:7:'.split(
      ' ',
    ),
    ...'1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7:8: 1:2:3:4:5:6:7:8::'.split(' '),
    ...'::1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:1.2.3.4 1:2:3:4:5:6:1.2.3.4:80 ::1.2.3.4:80'.split(' '),
    ...'::1.2.3.04 ::1.2.3.4.5 ::00001 ::g ::1% [::1 ::1] [::1]x [::1]: [::1]:x'.split(' '),
    ...'[::1]:65536 [] [%eth0] %eth0'.split(' '),
  ];

  it.each(junk)('%j has no key', (text) => {
    expect(addressKey(text)).toBeUndefined();
    expect(addressKey(text, { ipv4Prefix: 8, ipv6Prefix: 8 })).toBeUndefined();
  });

  it.each([undefined, null, 7, {}, ['1.2.3.4']])('nor has %o', (value) => {
    expect(addressKey(value as unknown as string)).toBeUndefined();
  });

  it('is what Node says it is', () => {
    const near = fc
      .tuple(fc.oneof(spelling, ipv4), fc.nat(50), fc.constantFrom(...'0:.%19fFgx', '::', ''))
      .map(([address, at, put]) => {
        const text = Array.isArray(address) ? address.join('.') : address.plain;
        return text.slice(0, at) + put + text.slice(at + 1);
      });
    const any = fc.string({ unit: fc.constantFrom(...'0:.19afF'), maxLength: 20 });
    fc.assert(
      fc.property(fc.oneof(near, any), (text) => {
        // Where Node knows no port, and keeps to few characters in a zone.
        fc.pre(!/\.\d+:\d+$/.test(text) && !text.includes('%'));
        expect(addressKey(text) !== undefined).toBe(isIP(text) !== 0);
      }),
      { numRuns: 5_000 },
    );
  });

  it('is found out at once, however long it is', () => {
    const long = [
      'a'.repeat(10_000),
      '1:'.repeat(5_000),
      '1'.repeat(10_000),
      '1.'.repeat(5_000),
      '['.repeat(10_000),
      '%'.repeat(10_000),
      '203.0.113.7, '.repeat(300),
    ];
    for (const text of long) expect(addressKey(text)).toBeUndefined();
    const start = performance.now();
    for (let i = 0; i < 100; i++) for (const text of long) addressKey(text);
    expect((performance.now() - start) / 100 / long.length).toBeLessThan(1);
  });
});
