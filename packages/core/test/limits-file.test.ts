import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import {
  createLimiter,
  type FileKeyPart,
  type FileMatch,
  gateLimits,
  type HttpRequest,
  limiterLimits,
  type LimitsWatch,
  limitsSchema,
  loadLimits,
  memoryStore,
  parseLimits,
  watchLimits,
} from '../src/index.ts';

const bucket = { algorithm: 'token-bucket', capacity: 10, rate: 10, per: '1m' };
const one = (limit: object): string =>
  JSON.stringify({ limits: [{ name: 'api', policy: bucket, ...limit }] });

describe('a limits file', () => {
  it('is read with policies in normal form', () => {
    const text = `\uFEFF${one({ policy: { algorithm: 'gcra', rate: 5, per: '1s' }, by: ['ip', 'route'] })}`;
    expect(parseLimits(text)).toEqual([
      {
        name: 'api',
        by: ['ip', 'route'],
        policy: { algorithm: 'token-bucket', capacity: 1, rate: 5, per: 1_000 },
      },
    ]);
  });

  it.each([
    ['nothing', '', 'is no JSON: Unexpected end'],
    ['a quote too few', '{\n  "limits": ["1]\n}', 'is no JSON: line 2: Bad control character'],
    ['an array', '[]', 'expected { "limits": [ … ] }, got an array'],
    ['no limits', '{}', 'limits: missing; expected an array of limits'],
    ['empty limits', '{"limits":[]}', 'limits: there are none'],
    ['another option beside them', '{"limits":[],"store":1}', 'store: unknown option'],
    [
      "another library's option",
      one({ max: 5 }),
      'limits[0].max: unknown option; Tollgate calls it',
    ],
    ['no policy', '{"limits":[{"name":"a"}]}', 'limits[0].policy: expected a policy'],
    [
      'a wrong number in a policy',
      one({ policy: { ...bucket, rate: '5' } }),
      'limits[0].policy.rate: expected a number, got "5" (string)',
    ],
    [
      "another library's option in a policy",
      one({ policy: { ...bucket, windowMs: 5 } }),
      'limits[0].policy.windowMs: unknown option; Tollgate calls it `per`',
    ],
    ['a wrong name', one({ name: '1' }), 'limits[0].name: expected a letter and up to 63'],
    ['a wrong key', one({ by: 'address' }), 'limits[0].by: expected "ip", "route", "everyone"'],
    ['no key', one({ by: [] }), 'limits[0].by: expected "ip"'],
    [
      'a wrong cost',
      one({ cost: '1' }),
      'limits[0].cost: expected a whole number, got "1" (string)',
    ],
    ['a cost beyond the quota', one({ cost: 11 }), 'limits[0].cost: a cost of 11 can never'],
    [
      'a path without a slash',
      one({ match: { path: 'api' } }),
      'limits[0].match.path: expected the',
    ],
    [
      'a wrong condition',
      one({ match: { url: '/' } }),
      'limits[0].match.url: unknown option; there',
    ],
    [
      'half a ban',
      one({ ban: { after: 3, within: '1m' } }),
      'limits[0].ban.for: missing; expected a duration',
    ],
    [
      'a ban of nothing',
      one({ ban: { after: 3, within: '1m', for: 0 } }),
      'limits[0].ban.for: expected a duration above 0',
    ],
    [
      'a ban of another name',
      one({ ban: { after: 3, within: '1m', for: '1h', times: 2 } }),
      'limits[0].ban.times: unknown option',
    ],
    ['a wrong mode', one({ mode: 'dry' }), 'limits[0].mode: expected "enforce" or "shadow"'],
    [
      'a name twice',
      JSON.stringify({
        limits: [
          { name: 'a', policy: bucket },
          { name: 'A', policy: bucket },
        ],
      }),
      'limits[1].name: "A" (string) is taken',
    ],
  ])('that holds %s says what is wrong', (_what, text, message) => {
    expect(() => parseLimits(text)).toThrow(message);
  });

  it('may ban keys', () => {
    const policy = { ...bucket, capacity: 1 };
    const text = one({ policy, ban: { after: 2, within: '1m', for: '1h' } });
    const limiter = createLimiter({ limits: limiterLimits(parseLimits(text)) });
    const reasons = [1, 2, 3].map(() => limiter.consume({ api: 'mallory' }).reason);
    expect(reasons).toEqual(['ok', 'limited', 'banned']);
  });

  it('has a JSON Schema that knows every policy', () => {
    const schema = JSON.stringify(limitsSchema());
    for (const tag of ['token-bucket', 'leaky-bucket', 'gcra', 'fixed-window', 'sliding-window']) {
      expect(schema).toContain(`"const":"${tag}"`);
    }
    expect(limitsSchema()).toMatchObject({
      required: ['limits'],
      additionalProperties: false,
      properties: { limits: { minItems: 1, items: { required: ['name', 'policy'] } } },
    });
  });
});

/** A live request's key under a limit of a file. */
function keyBy(by: FileKeyPart | FileKeyPart[], request: object): unknown {
  const [limit] = gateLimits(parseLimits(one({ by })));
  return limit?.by({ headers: {}, ip: '203.0.113.7', ...request } as HttpRequest);
}

describe('by', () => {
  it('reads the address as clientIp does', () => {
    expect(keyBy('ip', { ip: '2001:db8:1:2ff::9' })).toBe('2001:db8:1:200::/56');
  });

  it('joins several keys', () => {
    const request = { method: 'GET', routeOptions: { url: '/users/:id' } };
    expect(keyBy(['ip', 'route'], request)).toBe('203.0.113.7|GET /users/:id');
  });

  it('reads a field, and hashes it where it sounds like a credential', () => {
    expect(keyBy({ field: 'user.account' }, { user: { account: 'acme' } })).toBe('field:acme');
    const headers = { 'x-api-key': 'k-123' };
    const key = keyBy({ field: 'headers.x-api-key' }, { headers });
    expect(key).toMatch(/^secret:/);
    expect(key).not.toContain('k-123');
    expect(keyBy({ field: 'headers.x-api-key', secret: false }, { headers })).toBe('field:k-123');
  });

  it('charges the address where there is no field, unless that is optional', () => {
    expect(keyBy({ field: 'user.account' }, {})).toBe('ip:203.0.113.7');
    expect(keyBy({ field: 'user.account', optional: true }, {})).toBeUndefined();
    // What every object inherits is no field.
    expect(keyBy({ field: 'user.constructor.name' }, { user: {} })).toBe('ip:203.0.113.7');
  });
});

describe('match', () => {
  const applies = (match: FileMatch, method: string, url: string): boolean => {
    const [limit] = gateLimits(parseLimits(one({ match })));
    return limit?.skip?.({ method, url, headers: {} }) === false;
  };

  it.each([
    ['/api', true],
    ['/api/', true],
    ['/api/users?x=/', true],
    ['/api?x', true],
    ['/API/users', true],
    ['/%61pi/users', true],
    ['http://host/api/users', true],
    ['/apiary', false],
    ['/', false],
    ['/v1/api', false],
    ['/x?/api', false],
    ['/%zz', false],
  ])('of the path /api: %s', (url, expected) => {
    expect(applies({ path: '/api' }, 'GET', url)).toBe(expected);
    expect(applies({ path: ['/api/', '/nowhere'] }, 'GET', url)).toBe(expected);
    expect(applies({ path: '/' }, 'GET', url)).toBe(true);
  });

  it('of a method, where GET is HEAD too', () => {
    expect(applies({ method: 'get' }, 'HEAD', '/')).toBe(true);
    expect(applies({ method: ['POST', 'PUT'] }, 'PUT', '/')).toBe(true);
    expect(applies({ method: ['POST', 'PUT'] }, 'GET', '/')).toBe(false);
    expect(applies({ method: 'POST', path: '/login' }, 'POST', '/')).toBe(false);
  });
});

describe('a limits file that is watched', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-limits-'));
  const path = join(folder, 'limits.json');
  const write = (...limits: object[]): void => {
    writeFileSync(`${path}.new`, JSON.stringify({ limits }));
    renameSync(`${path}.new`, path);
  };
  const login = { name: 'login', policy: { algorithm: 'fixed-window', limit: 3, window: '1h' } };
  const api = { name: 'api', policy: bucket };
  const keys = { api: 'ada', login: 'ada' };
  let errors: string[] = [];
  let open: LimitsWatch[] = [];

  beforeEach(() => {
    write(api, login);
    errors = [];
    return () => {
      for (const watch of open) watch.close();
      open = [];
    };
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const start = (intervalMs = 60_000) => {
    const limits = loadLimits(path);
    const limiter = createLimiter({
      store: memoryStore({ clock: () => 1_800_000_000_000_000 }),
      limits: limiterLimits(limits),
    });
    const changes: string[] = [];
    const watch = watchLimits(path, limits, limiter, {
      intervalMs,
      onChange: (changed) => changes.push(...changed.map(({ name }) => name)),
      onError: ({ message }) => errors.push(message),
    });
    open.push(watch);
    return { limiter, watch, changes };
  };

  it('changes policies and keeps what keys owe', () => {
    const { limiter, watch, changes } = start();
    for (let i = 0; i < 3; i++) limiter.consume(keys);
    write({ name: 'api', policy: { ...bucket, capacity: 5 } }, login);
    expect(watch.reload()).toBe(true);
    expect(changes).toEqual(['api']);
    expect(watch.limits[0]?.policy).toMatchObject({ capacity: 5 });
    const [verdict] = limiter.peek(keys).verdicts;
    expect(verdict).toMatchObject({ limit: 5, remaining: 2 });
    expect(errors).toEqual([]);
  });

  it.each([
    ['is no JSON', '{', 'is no JSON'],
    [
      'has a wrong policy',
      JSON.stringify({ limits: [api, { ...login, policy: {} }] }),
      'limits[1]',
    ],
    ['lacks a limit', JSON.stringify({ limits: [api] }), '"login" is gone; that takes a'],
    [
      'has a new limit',
      JSON.stringify({ limits: [api, login, { ...login, name: 'other' }] }),
      '"other" is new; that takes a restart',
    ],
    [
      'has another cost',
      JSON.stringify({
        limits: [
          { ...api, policy: { ...bucket, capacity: 1_000 } },
          { ...login, cost: 2 },
        ],
      }),
      '"login" changed more than its policy',
    ],
  ])('keeps all as it was where the new one %s', (_what, text, message) => {
    const { limiter, watch, changes } = start();
    const before = watch.limits;
    limiter.consume(keys);
    writeFileSync(path, text);
    expect(watch.reload()).toBe(false);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain(message);
    expect(errors[0]).toContain(path);
    expect(watch.limits).toBe(before);
    expect(changes).toEqual([]);
    expect(limiter.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([9, 2]);
    // Once it is mended, it is applied.
    write({ ...api, policy: { ...bucket, capacity: 20 } }, login);
    expect(watch.reload()).toBe(true);
    expect(limiter.peek(keys).verdicts.map(({ remaining }) => remaining)).toEqual([19, 2]);
  });

  it('applies no policy where the limiter refuses one', () => {
    const limits = loadLimits(path);
    const limiter = createLimiter({ limits: limiterLimits(limits), priorities: ['only'] });
    const watch = watchLimits(path, limits, limiter, {
      onError: ({ message }) => errors.push(message),
    });
    open.push(watch);
    const reserved = { algorithm: 'concurrency', limit: 5, reserved: { critical: 0.2 } };
    write({ ...api, policy: { ...bucket, capacity: 20 } }, { ...login, policy: reserved });
    expect(watch.reload()).toBe(false);
    expect(errors[0]).toContain('there is no such priority');
    expect(limiter.peek(keys).verdicts.map(({ limit }) => limit)).toEqual([10, 3]);
  });

  it('is looked at again and again', async () => {
    const { limiter, changes } = start(20);
    write(api, { ...login, policy: { algorithm: 'fixed-window', limit: 7, window: '1h' } });
    await expect.poll(() => changes, { timeout: 10_000 }).toEqual(['login']);
    expect(limiter.peek(keys).verdicts[1]?.remaining).toBe(7);
    rmSync(path);
    await expect.poll(() => errors, { timeout: 10_000 }).toHaveLength(1);
    expect(errors[0]).toContain('cannot be read');
    expect(limiter.peek(keys).verdicts[1]?.remaining).toBe(7);
  });

  it('refuses options that cannot work', () => {
    const limits = loadLimits(path);
    const limiter = createLimiter({ limits: limiterLimits(limits) });
    expect(() => watchLimits(path, limits, limiter, { intervalMs: 0 })).toThrow('intervalMs');
    expect(() => watchLimits(path, limits, limiter, { interval: 5 } as never)).toThrow('interval');
  });
});
