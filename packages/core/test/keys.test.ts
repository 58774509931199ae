import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TollgateArgumentError, TollgateConfigError } from '../src/errors.ts';
import { apiKey, bearerToken, custom, route, secret, tenant } from '../src/http/keys.ts';
import type { HttpRequest, KeyFunction } from '../src/http/request.ts';

const IP = '203.0.113.7';
const HASHED = /^[\w-]{22}$/;

function requestWith(headers: HttpRequest['headers'] = {}, ip = IP): HttpRequest {
  return { headers, ip };
}

/** A key function that returns what its type forbids. */
function broken(value: unknown): KeyFunction {
  return () => value as string;
}

function later(value: string | undefined): KeyFunction {
  return () => Promise.resolve(value);
}

const NO_KEYS = [undefined, null, '', Number.NaN, 0, 7, {}, [], true];

describe.each([
  ['apiKey', apiKey, 'key:', (value: string) => ({ 'x-api-key': value })],
  [
    'bearerToken',
    bearerToken,
    'bearer:',
    (value: string) => ({ authorization: `Bearer ${value}` }),
  ],
])('%s', (_, make, namespace, headers) => {
  const key = make();

  it('is a hash of the secret, in a namespace of its own', () => {
    const found = key(requestWith(headers('s3cret-A'))) as string;
    expect(found.startsWith(namespace)).toBe(true);
    expect(found.slice(namespace.length)).toMatch(HASHED);
    expect(make()(requestWith(headers('s3cret-A')))).toBe(found);
    expect(key(requestWith(headers('s3cret-a')))).not.toBe(found);
  });

  it('differs where the secrets do, also long ones', () => {
    const text = fc.string({ unit: fc.constantFrom(...'abcé:|.'), minLength: 1, maxLength: 600 });
    fc.assert(
      fc.property(text, text, (one, other) => {
        const keys = [one, other].map((value) => key(requestWith(headers(value))));
        expect(keys[0] === keys[1]).toBe(one === other);
        expect(keys[0]).not.toContain(one.length > 3 ? one : ' ');
      }),
    );
  });

  it('is the same before and after the memo has forgotten it', () => {
    const fresh = key(requestWith(headers('a')));
    for (let i = 0; i < 2_500; i++) {
      void key(requestWith(headers(`other-${i}`)));
      if (i % 300 === 0)
        expect(key(requestWith(headers('b')))).toBe(make()(requestWith(headers('b'))));
    }
    expect(key(requestWith(headers('a')))).toBe(fresh);
  });

  it('takes the first of several', () => {
    const first = key(requestWith(headers('one')));
    expect(key(requestWith(headers('one, two')))).toBe(first);
    expect(key(requestWith(headers('one,two')))).toBe(first);
    const [name, value] = Object.entries(headers('one'))[0] as [string, string];
    const both = { [name]: [value, 'two'] } as unknown as HttpRequest['headers'];
    expect(key(requestWith(both))).toBe(first);
  });

  it('charges the address where there is none', () => {
    for (const none of [{}, headers(''), headers(' '), headers(', two')]) {
      expect(key(requestWith(none))).toBe(`ip:${IP}`);
      expect(key(requestWith(none, '2001:db8::1'))).toBe('ip:2001:db8::/56');
      expect(make({ optional: true })(requestWith(none))).toBeUndefined();
    }
    expect(() => key({ headers: {} })).toThrow(TollgateConfigError);
  });

  it('says that callers choose it', () => {
    expect(key.chosenByCaller).toBe(true);
    expect(make({ optional: true }).chosenByCaller).toBe(true);
  });

  it('refuses options that cannot work', () => {
    const path = make.name;
    expect(() => make({ optinal: true } as object)).toThrow(`${path}.optinal: unknown option`);
    expect(() => make({ optional: 'yes' } as object)).toThrow(
      `${path}.optional: expected true or false, got "yes" (string)`,
    );
    expect(() => make(null as unknown as object)).toThrow(`${path}: expected options or nothing`);
    expect(() => make('x-key' as unknown as object)).toThrow(TollgateConfigError);
  });
});

describe('apiKey', () => {
  it('reads the header it is told, whatever the case', () => {
    const key = apiKey({ header: 'X-Client-Key' });
    expect(key(requestWith({ 'x-client-key': 'a' }))).toBe(
      apiKey()(requestWith({ 'x-api-key': 'a' })),
    );
    expect(key(requestWith({ 'x-api-key': 'a' }))).toBe(`ip:${IP}`);
  });

  it.each(['', 'x api key', 'x-api-key:', 'clé', 7, null])('refuses the header %o', (header) => {
    expect(() => apiKey({ header: header as string })).toThrow(
      /^apiKey\.header: expected the name of a header, such as "x-api-key", got /,
    );
  });

  it.each(['__proto__', 'constructor', 'toString'])('finds no key in %s', (header) => {
    expect(apiKey({ header })(requestWith())).toBe(`ip:${IP}`);
  });
});

describe('bearerToken', () => {
  it.each(['bearer abc', 'BEARER abc', 'Bearer   abc', 'Bearer abc  '])('reads %j', (header) => {
    const plain = bearerToken()(requestWith({ authorization: 'Bearer abc' }));
    expect(bearerToken()(requestWith({ authorization: header }))).toBe(plain);
  });

  it.each(['Basic abc', 'abc', 'Bearer', 'Bearerabc', 'Bearer a b', 'Bearer\tabc', 'X Bearer abc'])(
    'finds no token in %j',
    (header) => {
      expect(bearerToken()(requestWith({ authorization: header }))).toBe(`ip:${IP}`);
    },
  );

  it('is done at once with a header of 10 kB', () => {
    const start = performance.now();
    for (const filler of [' ', 'a', 'a ', '\t']) {
      void bearerToken()(requestWith({ authorization: `Bearer ${filler.repeat(10_000)} b c` }));
    }
    expect(performance.now() - start).toBeLessThan(100);
  });
});

describe('tenant', () => {
  it('has a namespace of its own', () => {
    expect(tenant(() => 'acme')(requestWith())).toBe('tenant:acme');
    expect(tenant(() => 'acme').chosenByCaller).toBeUndefined();
  });

  it('charges the address where there is none, unless it is optional', () => {
    expect(tenant(() => undefined)(requestWith())).toBe(`ip:${IP}`);
    expect(tenant(() => undefined, { optional: true })(requestWith())).toBeUndefined();
  });

  it('waits for a promise', async () => {
    expect(await tenant(later('acme'))(requestWith())).toBe('tenant:acme');
    expect(await tenant(later(undefined))(requestWith())).toBe(`ip:${IP}`);
    const failure = new Error('no database');
    await expect(tenant(() => Promise.reject(failure))(requestWith())).rejects.toBe(failure);
  });

  it('hands on what is no key, so that it is refused', () => {
    for (const value of NO_KEYS.slice(1)) {
      expect(tenant(broken(value))(requestWith())).toBe(value);
    }
  });

  it('refuses anything but a function', () => {
    expect(() => tenant('acme' as unknown as () => string)).toThrow(
      'tenant: expected a function, as in tenant((request) => request.user?.account), got "acme" (string)',
    );
    expect(() => tenant(() => 'a', { optional: 1 } as object)).toThrow('tenant.optional: ');
  });
});

describe('custom', () => {
  it('hands on whatever the function returns', async () => {
    for (const value of NO_KEYS) expect(custom(broken(value))(requestWith())).toBe(value);
    expect(await custom(later('a'))(requestWith())).toBe('a');
  });

  it('refuses anything but a function', () => {
    expect(() => custom('x' as unknown as () => string)).toThrow(
      new TollgateConfigError(
        'custom',
        'expected a function, as in custom((request) => …), got "x" (string)',
      ),
    );
  });
});

describe('secret', () => {
  it('hashes what a key function returns', async () => {
    const key = secret(custom(() => 'a@example.com'))(requestWith());
    expect(key).toMatch(/^secret:[\w-]{22}$/);
    expect(await secret(later('a@example.com'))(requestWith())).toBe(key);
    expect(secret(custom(() => 'b@example.com'))(requestWith())).not.toBe(key);
  });

  it('tells lone surrogates apart', () => {
    const [one, other] = ['\uD800', '\uDBFF'].map((text) =>
      secret(custom(() => text))(requestWith()),
    );
    expect(one).not.toBe(other);
  });

  it('does not show a value that is no key', () => {
    expect(secret(broken(undefined))(requestWith())).toBeUndefined();
    expect(secret(broken(''))(requestWith())).toBe('');
    for (const value of [123_456, null, {}, Number.NaN]) {
      const key = secret(broken(value));
      expect(() => key(requestWith())).toThrow(TollgateArgumentError);
      expect(() => key(requestWith())).toThrow(/a value of type (number|object)\.$/);
    }
  });
});

describe('route', () => {
  it.each<[string, Partial<HttpRequest>]>([
    ['GET /users/:id', { method: 'GET', url: '/users/7', routeOptions: { url: '/users/:id' } }],
    ['GET /users/:id', { method: 'HEAD', routeOptions: { url: '/users/:id' } }],
    ['POST /api/users/:id', { method: 'POST', baseUrl: '/api', route: { path: '/users/:id' } }],
    ['GET /api/', { method: 'GET', baseUrl: '/Api', route: { path: '/' } }],
    ['GET /^\\/a/i', { method: 'GET', baseUrl: '', route: { path: /^\/a/i } }],
    ['GET /a,/b/', { method: 'GET', route: { path: ['/a', /b/] } }],
    ['GET /a', { route: { path: '/a' } }],
    ['(no route)', { method: 'GET', url: '/x?1', originalUrl: '/x?1', routeOptions: {} }],
    ['(no route)', { method: 'POST', url: '/y', baseUrl: '/api' }],
    ['(no route)', { method: 'GET', route: { path: {} } }],
    ['(no route)', { method: 'GET', route: undefined, routeOptions: { url: undefined } }],
  ])('is %j for %o', (key, request) => {
    expect(route()({ headers: {}, ...request })).toBe(key);
  });
});
