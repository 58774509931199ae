import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import fc from 'fast-check';
import { describe, expect, expectTypeOf, it, test } from 'vitest';
import { clientIp } from '../src/http/client-ip.ts';
import { TollgateConfigError } from '../src/errors.ts';
import {
  all,
  apiKey,
  bearerToken,
  custom,
  everyone,
  firstOf,
  route,
  secret,
  tenant,
} from '../src/http/keys.ts';
import type { HttpRequest, KeyFunction } from '../src/http/request.ts';

const IP = '203.0.113.7';

const REQUEST: HttpRequest = { headers: {}, ip: IP };

/** A key function that returns what its type forbids. */
function broken(value: unknown): KeyFunction {
  return () => value as string;
}

function later(value: string | undefined): KeyFunction {
  return () => Promise.resolve(value);
}

const NO_KEYS = [undefined, null, '', Number.NaN, 0, 7, {}, [], true];

describe('all', () => {
  const parts = fc.array(fc.string({ unit: fc.constantFrom(...'a1.|\\/: %,'), minLength: 1 }), {
    minLength: 1,
    maxLength: 4,
  });
  const keyOf = (values: readonly string[]): unknown =>
    all(...values.map((value) => custom(() => value)))(REQUEST);

  it('reads well', () => {
    expect(
      all(
        clientIp(),
        custom(() => 'GET /x'),
      )(REQUEST),
    ).toBe(`${IP}|GET /x`);
    expect(all(clientIp())(REQUEST)).toBe(IP);
    expect(keyOf(['a|b', 'c\\'])).toBe('a\\|b|c\\\\');
  });

  it('writes no two combinations alike', () => {
    expect(keyOf(['1.2.3.4', '5/x'])).not.toBe(keyOf(['1.2.3.45', '/x']));
    fc.assert(
      fc.property(parts, parts, fc.nat(20), (one, other, cut) => {
        const text = one.join('|');
        const moved = [text.slice(0, cut), text.slice(cut)].filter((part) => part !== '');
        for (const second of [other, moved]) {
          expect(keyOf(one) === keyOf(second)).toBe(one.join('\0') === second.join('\0'));
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('is at hand when all parts are, and a promise when one is', async () => {
    const made = all(
      everyone(),
      later('b'),
      custom(() => 'c'),
      later('d'),
    )(REQUEST);
    expect(made).toBeInstanceOf(Promise);
    expect(await made).toBe('everyone|b|c|d');
    await expect(all(later('a'), () => Promise.reject(new Error('x')))(REQUEST)).rejects.toThrow(
      'x',
    );
  });

  it('hands on the first part that is no key, and asks no further', async () => {
    for (const value of NO_KEYS) {
      const after = custom<HttpRequest>(() => expect.unreachable());
      expect(all(everyone(), broken(value), after)(REQUEST)).toBe(value);
      expect(await all(later('a'), broken(value), after)(REQUEST)).toBe(value);
    }
    expect(await all(later(undefined), everyone())(REQUEST)).toBeUndefined();
  });
});

describe('firstOf', () => {
  it('is the first that is there', async () => {
    const none = custom<HttpRequest>(() => undefined);
    expect(firstOf(none, clientIp(), everyone())(REQUEST)).toBe(IP);
    expect(firstOf(none, none)(REQUEST)).toBeUndefined();
    expect(await firstOf(later(undefined), none, later('b'), everyone())(REQUEST)).toBe('b');
    expect(await firstOf(later(undefined), clientIp())(REQUEST)).toBe(IP);
  });

  it('hands on what is no key', () => {
    for (const value of NO_KEYS.slice(1)) {
      expect(firstOf(broken(value), everyone())(REQUEST)).toBe(value);
    }
  });
});

test.each([all, firstOf])('%o refuses parts that cannot work', (join) => {
  const example = `as in ${join.name}(apiKey(), clientIp())`;
  expect(() => join()).toThrow(
    new TollgateConfigError(join.name, `expected at least one key function, ${example}`),
  );
  expect(() => join(clientIp(), 'ip' as unknown as KeyFunction)).toThrow(
    new TollgateConfigError(
      `${join.name}[1]`,
      `expected a function, ${example}, got "ip" (string)`,
    ),
  );
});

test('a key made of others is chosen by the caller where one of them is', () => {
  const own = custom<HttpRequest>(() => 'a');
  for (const join of [all, firstOf]) {
    expect(join(clientIp(), route(), everyone(), own).chosenByCaller).toBe(false);
    expect(join(clientIp(), apiKey()).chosenByCaller).toBe(true);
    expect(join(all(own, firstOf(bearerToken({ optional: true }), own))).chosenByCaller).toBe(true);
  }
  expect(secret(apiKey()).chosenByCaller).toBe(true);
  expect(secret(clientIp()).chosenByCaller).toBe(false);
});

test('no key has the text of a missing value in it', () => {
  const header = fc.option(fc.constantFrom('', 'a', 'Bearer', 'Bearer t', ', ,'), {
    nil: undefined,
  });
  const ip = fc.constantFrom(undefined, '', 'unknown', IP, '2001:db8::1');
  const kinds = [apiKey(), bearerToken(), tenant(() => undefined), clientIp(), route(), everyone()];
  const key = firstOf(all(...kinds), secret(clientIp()));
  fc.assert(
    fc.property(header, header, ip, (own, authorization, address) => {
      const made = key({
        headers: { 'x-api-key': own, authorization } as HttpRequest['headers'],
        ip: address,
        socket: { remoteAddress: '::ffff:127.0.0.1' },
      });
      expect(made).toMatch(/^(?!.*(undefined|null|NaN|\[object)).+$/);
    }),
  );
});

test('key functions of different requests go together', () => {
  interface Signed extends HttpRequest {
    readonly user: { readonly id: string };
  }
  const user = custom((request: Signed) => request.user.id);
  expectTypeOf(all(clientIp(), everyone(), user)).toExtend<KeyFunction<Signed>>();
  expectTypeOf(firstOf(user, apiKey(), route())).toExtend<KeyFunction<Signed>>();
  expectTypeOf(clientIp()).toExtend<KeyFunction<Signed>>();
  expectTypeOf<IncomingMessage>().toExtend<HttpRequest>();
  expectTypeOf<Http2ServerRequest>().toExtend<HttpRequest>();
  // A key that needs more than the request has must not pass.
  expectTypeOf(user).not.toExtend<KeyFunction>();
  // The request's type comes from where the key is put.
  const by: KeyFunction<Signed> = all(
    route(),
    tenant((request) => request.user.id),
  );
  expect(by({ headers: {}, ip: IP, user: { id: 'u' } })).toBe('(no route)|tenant:u');
});
