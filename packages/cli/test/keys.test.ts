import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import {
  apiKey,
  createLimiter,
  type Decision,
  type Limiter,
  limiterLimits,
  parseLimits,
  type RefusedKey,
} from '@tollgate/core';
import { redisStore, type RedisStore, type RedisStoreOptions } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { build } from '../../../test/readme/built.ts';
import { RedisServer } from '../../../test/redis/server.ts';
import { keysCommand } from '../src/keys/command.ts';
import { tollgate } from './tollgate.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-keys-'));
const limits = join(folder, 'limits.json');
const LIMITS = {
  limits: [
    { name: 'address', policy: { algorithm: 'fixed-window', limit: 2, window: '1d' } },
    {
      name: 'tenant',
      by: 'everyone',
      policy: { algorithm: 'token-bucket', capacity: 5, rate: 1, per: '1h' },
    },
  ],
};

let server: RedisServer;
let root: Redis;
let url: string;

beforeAll(async () => {
  build();
  writeFileSync(limits, JSON.stringify(LIMITS));
  server = await RedisServer.start(['--requirepass', 's3:cret/']);
  root = new Redis({ port: server.port, password: 's3:cret/' });
  url = `redis://:${encodeURIComponent('s3:cret/')}@127.0.0.1:${server.port}`;
}, 180_000);

afterAll(async () => {
  root?.disconnect();
  await server?.stop();
  rmSync(folder, { recursive: true });
});

beforeEach(() => root.flushall());

function service(options: RedisStoreOptions = {}): Limiter<RedisStore> {
  return createLimiter({
    store: redisStore(root, { deadlineMs: 10_000, ...options }),
    limits: limiterLimits(parseLimits(JSON.stringify(LIMITS))),
  });
}

/** What a command prints. */
function keys(...args: string[]): Promise<string> {
  return keysCommand([...args, '--redis', url]);
}

async function asJson<T>(...args: string[]): Promise<T> {
  return JSON.parse(await keys(...args, '--json')) as T;
}

describe('tollgate keys top', () => {
  it('shows what the fleet refused, of all limits or of some', async () => {
    for (const key of ['203.0.113.7', '198.51.100.9']) {
      const limiter = service();
      for (let i = 0; i < 4; i++) await limiter.consume({ address: key }, { cost: 2 });
      await limiter.consume({ tenant: 'a\u001B[31mcme' }, { cost: 5 });
      await limiter.consume({ tenant: 'a\u001B[31mcme' }, { cost: 5 });
      await limiter.close();
    }
    const text = await keys('top');
    expect(text).toMatch(/address, most refused in the last 24 hours:\n {2}\S+ +3 {2}3\/min {2}20/);
    expect(text).toMatch(/tenant, most refused in the last 24 hours:\n {2}a\\u001b\[31mcme +3/);
    const { hours, keys: all } = await asJson<{ hours: number; keys: RefusedKey[] }>('top');
    expect(hours).toBe(24);
    expect(all).toHaveLength(3);
    const some = ['--limit', 'address', '--count', '1', '--hours', '1'];
    const first = await asJson<{ keys: RefusedKey[] }>('top', ...some);
    expect(first.keys).toMatchObject([{ limit: 'address', count: 3, errorBound: 0 }]);
    const ofFile = await asJson<{ keys: RefusedKey[] }>('top', '--limits', limits);
    expect(ofFile.keys).toEqual(all);
    expect(await keys('top', '--prefix', 'other:')).toBe(
      'Nothing was refused in the last 24 hours.\n',
    );
  });
});

describe('tollgate keys, of one key,', () => {
  it('peeks, bans, unbans and resets', async () => {
    const limiter = service();
    await limiter.consume({ address: '2001:db8::/56', tenant: 'acme' }, { cost: 2 });
    const peek = ['peek', '2001:db8::7', '--limits', limits, '--limit', 'address'];
    const peeked = await asJson<Decision>(...peek);
    expect(peeked.verdicts).toMatchObject([
      { name: 'address', key: '2001:db8::/56', remaining: 0 },
    ]);
    expect(await keys(...peek)).toMatch(/^address {2}2001:db8::\/56: 0 of 2 left, whole after \d/);

    const tenant = ['--limit', 'tenant', '--limits', limits];
    expect(await keys('ban', 'acme', ...tenant, '--for', '1h')).toBe(
      'tenant  acme: banned for 1h\n',
    );
    const banned = await limiter.consume({ tenant: 'acme' });
    expect(banned).toMatchObject({ allowed: false, reason: 'banned' });
    expect(await keys('peek', 'acme', ...tenant)).toContain(
      'would be refused (banned), retry after',
    );
    expect(await asJson('unban', 'acme', '--limit', 'tenant')).toEqual({
      unban: { tenant: 'acme' },
    });
    expect((await limiter.consume({ tenant: 'acme' })).remaining).toBe(2);

    expect(await keys('reset', '2001:db8::/56', '--limit', 'address', '--limit', 'tenant')).toBe(
      'address  2001:db8::/56: forgotten\ntenant  2001:db8::/56: forgotten\n',
    );
    expect((await limiter.peek({ address: '2001:db8::/56' })).remaining).toBe(2);
    await limiter.close();
  });

  it('makes the key of what a caller sends', async () => {
    const limiter = service();
    const key = await apiKey()({ headers: { 'x-api-key': 'k-very-secret' } });
    await limiter.ban({ tenant: key }, 60_000);
    const { err, out } = await tollgate(
      ['keys', 'peek', '-', '--as', 'api-key', '--limits', limits, '--limit', 'tenant'],
      { input: 'k-very-secret\n', env: { TOLLGATE_REDIS: url } },
    );
    expect(err).toBe('');
    expect(out).toContain(`tenant  ${key}: 0 of 5 left`);
    expect(out).toContain('(banned)');
    expect(out).not.toContain('k-very-secret');
    await limiter.close();
  });

  it('finds keys by the text that a hash tag returns', async () => {
    const limiter = service({ hashTag: ({ tenant }) => tenant });
    await limiter.consume({ tenant: 'acme', address: '192.0.2.1' });
    const peek = ['peek', '192.0.2.1', '--limit', 'address', '--limits', limits];
    expect(await keys(...peek)).toContain('2 of 2 left');
    expect(await keys(...peek, '--hash-tag', 'acme')).toContain('1 of 2 left');
    await limiter.close();
  });
});

describe('a mistake', () => {
  it.each([
    [['keys'], 'keys needs one of top, peek, reset, ban, unban'],
    [['keys', 'pek', 'x'], 'got "pek"'],
    [['keys', 'top', 'x'], '--limit <name>'],
    [['keys', 'top', '--count', '0'], '--count'],
    [['keys', 'peek'], '--limits'],
    [['keys', 'peek', 'x', '--limits', limits], 'needs --redis <url>, or the variable'],
    [['keys', 'peek', 'x', '--limits', limits, '--limit', 'other'], 'there are address, tenant'],
    [['keys', 'reset', 'x'], 'needs --limits <file> or --limit <name>'],
    [['keys', 'reset', '--limit', 'a'], 'needs one key'],
    [['keys', 'ban', 'x', '--limits', limits, '--for', '1h'], 'needs --limit'],
    [['keys', 'ban', 'x', '--limit', 'a'], 'needs --for'],
    [['keys', 'ban', 'x', '--limit', 'a', '--for', 'ever'], '--for: expected a duration'],
    [['keys', 'unban', 'x', '--limit', 'a', '--as', 'ip'], 'there are api-key, bearer'],
    [['keys', 'unban', 'x', '--limit', 'no name'], 'is no name of a limit'],
  ])('in %j is told with its mend', async ([, ...args], message) => {
    await expect(keysCommand(args)).rejects.toThrow(message);
  });

  it.each([
    ['no server', 'redis://user:s3cret@127.0.0.1:1', 'ECONNREFUSED'],
    ['a wrong password', 'redis://user:s3cret@127.0.0.1:PORT', 'WRONGPASS'],
    ['no password', 'redis://127.0.0.1:PORT', 'NOAUTH'],
    ['no URL', 's3cret@127.0.0.1', 'must be a URL'],
    ['no port', 'redis://user:s3cret@127.0.0.1:port', 'must be a URL'],
    ['no database', 'redis://user:s3cret@127.0.0.1/first', 'must be a URL'],
  ])('in the address is told without what it holds: %s', async (_name, address, message) => {
    const redis = address.replace('PORT', `${server.port}`);
    const error = await keysCommand(['top', '--redis', redis]).catch((each: unknown) => each);
    expect(inspect(error)).toContain(message);
    expect(inspect(error)).not.toContain('s3cret');
  });

  it.each([
    ['redis://user:s3cret@127.0.0.1:1', 1, /^tollgate: Redis at 127.0.0.1:1 cannot be used: .*\n$/],
    ['s3cret@127.0.0.1', 2, /^tollgate: The address of Redis .*\nSee tollgate --help.\n$/],
  ])('ends the command, and says one sentence', async (redis, code, message) => {
    const ended = await tollgate(['keys', 'top', '--redis', redis]);
    expect([ended.code, ended.out]).toEqual([code, '']);
    expect(ended.err).toMatch(message);
    expect(ended.err).not.toContain('s3cret');
  });
});

it('tells what it can do', async () => {
  expect((await tollgate(['keys', 'ban', '--help'])).out).toContain('--hash-tag <text>');
});

it('takes a cluster for no single server', async () => {
  const node = await RedisServer.start(['--cluster-enabled', 'yes']);
  const control = new Redis(node.port, '127.0.0.1');
  await control.cluster('ADDSLOTSRANGE', 0, 16_383);
  await control.config('SET', 'cluster-announce-ip', '127.0.0.1');
  await expect.poll(() => control.cluster('INFO'), { timeout: 20_000 }).toContain('state:ok');
  const args = ['--redis', `redis://127.0.0.1:${node.port}`, '--cluster'];
  const ban = ['ban', 'acme', '--limit', 'tenant', '--for', '90s', ...args];
  expect(await keysCommand(ban)).toBe('tenant  acme: banned for 90s\n');
  const peek = ['peek', 'acme', '--limits', limits, ...args];
  expect(await keysCommand(peek)).toMatch(/address {2}acme: 2 of 2 .*\ntenant {2}acme: .*banned/);
  expect(await keysCommand(['top', ...args])).toContain('Nothing was refused');
  control.disconnect();
  await node.stop();
});
