import {
  addressKey,
  clientIp,
  custom,
  everyone,
  fixedWindow,
  type KeyFunction,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppRequest } from './app.ts';
import { ask, askPlainly, inTurn, tally } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { temporarySocket } from './unix-socket.ts';

const PROXY = '127.0.0.1';

function perMinute(limit: number, by?: KeyFunction<AppRequest>) {
  return { name: 'default', policy: fixedWindow({ limit, window: '60s' }), ...(by && { by }) };
}

function from(address: string): RequestInit {
  return { headers: { 'x-forwarded-for': address } };
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** The statuses of one request from each address, through a trusted proxy. */
  async function statusesFrom(
    addresses: readonly string[],
    limit: number,
    by?: KeyFunction<AppRequest>,
  ) {
    const { store } = new Clock();
    const { url, errors } = await serve({
      gates: [{ store, limits: [perMinute(limit, by)] }],
      trust: PROXY,
    });
    const statuses: number[] = [];
    for (const address of addresses) statuses.push((await ask(url, from(address))).status);
    expect(errors).toEqual([]);
    return statuses;
  }

  it('does not let a caller write its own address while no proxy is trusted', async () => {
    const { store } = new Clock();
    const { url } = await serve({ gates: [{ store, limits: [perMinute(2)] }] });
    const statuses: number[] = [];
    for (let i = 1; i <= 20; i++) statuses.push((await ask(url, from(`198.51.100.${i}`))).status);
    expect(tally(statuses)).toEqual({ 200: 2, 429: 18 });
  });

  it('believes only what the trusted proxies wrote', async () => {
    const { store } = new Clock();
    const { url } = await serve({ gates: [{ store, limits: [perMinute(1)] }], trust: 1 });
    expect((await ask(url, from('198.51.100.1, 203.0.113.7'))).status).toBe(200);
    expect((await ask(url, from('198.51.100.2, 203.0.113.7'))).status).toBe(429);
    expect((await ask(url, from('198.51.100.1, 203.0.113.8'))).status).toBe(200);
  });

  it('drops ports', async () => {
    const addresses = [
      '203.0.113.7:40001',
      '203.0.113.7:40002',
      '203.0.113.7',
      '[2001:db8::7]:40001',
      '[2001:db8::7]',
      '2001:db8::7',
      '203.0.113.8:5',
    ];
    expect(await statusesFrom(addresses, 2)).toEqual([200, 200, 429, 200, 200, 429, 200]);
  });

  test.each<[string, KeyFunction<AppRequest> | undefined]>([
    ['by default', undefined],
    ['by a function with the exported helper', custom(({ ip }) => addressKey(ip))],
  ])('gives a subscriber of IPv6 one budget %s', async (_, by) => {
    const one = Array.from({ length: 50 }, (_unused, i) => `2001:db8:1:2::${(i + 1).toString(16)}`);
    const other = ['2001:db8:ffff:2::1'];
    const ipv4 = ['203.0.113.7', '203.0.113.8'].flatMap((each) => Array<string>(5).fill(each));
    const statuses = await statusesFrom([...one, ...other, ...ipv4], 5, by);
    expect(tally(statuses.slice(0, 50))).toEqual({ 200: 5, 429: 45 });
    expect(tally(statuses.slice(50))).toEqual({ 200: 11 });
  });

  it('takes the prefixes that it is told', async () => {
    const by = clientIp({ ipv4Prefix: 24, ipv6Prefix: 128 });
    const addresses = ['203.0.113.7', '203.0.113.8', '203.0.114.7', '2001:db8::1', '2001:db8::2'];
    expect(await statusesFrom(addresses, 1, by)).toEqual([200, 429, 200, 200, 200]);
  });

  it('takes IPv4 written as IPv6 for IPv4, and what only looks like it for IPv6', async () => {
    const mapped = ['::ffff:203.0.113.7', '::ffff:cb00:7107', '203.0.113.7', '::ffff:203.0.113.8'];
    const dotted = ['2001:db8:1234:5678::203.0.113.7', '2001:db8:1234:5678::203.0.113.8'];
    const translated = ['64:ff9b::203.0.113.9', '64:ff9b::203.0.113.10'];
    expect(await statusesFrom([...mapped, ...dotted, ...translated], 1)).toEqual([
      200, 429, 429, 200, 200, 429, 200, 200,
    ]);
  });

  it('tells IPv4 clients of a dual-stack socket apart', async () => {
    const { store } = new Clock();
    const { port } = await serve({
      gates: [{ store, limits: [perMinute(1)] }],
      listen: { host: '::', port: 0 },
    });
    const statuses: unknown[] = [];
    for (const localAddress of ['127.0.0.1', '127.0.0.1', '127.0.0.2']) {
      statuses.push((await askPlainly({ port, localAddress })).status);
    }
    expect(statuses).toEqual([200, 429, 200]);
    expect(await inTurn(`http://[::1]:${port}`, 2)).toEqual([200, 429]);
  });

  it('gives all that is no address one budget', async () => {
    const junk = [
      '{${7*7}}',
      'unknown',
      '_x',
      '1.2.3.4.5',
      '203.0.113.999',
      '203.0.113.7#a',
      '',
      ', ,',
      '203.0.113.7 x',
      '[::1',
      '::ffff:300.1.1.1',
      'localhost',
      'null',
      'undefined',
      '0x7f000001',
      '-1',
      'a'.repeat(10_000),
      Array<string>(300).fill('x').join(', '),
      '%00',
      '../../etc/passwd',
    ];
    expect(tally(await statusesFrom(junk, 3))).toEqual({ 200: 3, 429: 17 });
  });

  describe('on a Unix socket', () => {
    it('says that there is no address instead of giving all callers one budget', async () => {
      const { store } = new Clock();
      const socketPath = temporarySocket();
      const { errors } = await serve({
        gates: [{ store, limits: [perMinute(2)] }],
        listen: { path: socketPath },
      });
      for (let i = 0; i < 3; i++) expect((await askPlainly({ socketPath })).status).toBe(500);
      expect(errors).toHaveLength(3);
      expect(errors[0]).toMatchObject({ code: 'TOLLGATE_CONFIG', path: 'by' });
      expect(store.size).toBe(0);
    });

    it('takes an explicit choice', async () => {
      const { store } = new Clock();
      const socketPath = temporarySocket();
      const limits = [perMinute(2, everyone())];
      const headers = ['x-ratelimit', 'draft-6', 'draft-11'] as const;
      await serve({ gates: [{ store, limits, headers }], listen: { path: socketPath } });
      const replies = [
        await askPlainly({ socketPath }),
        await askPlainly({ socketPath }),
        await askPlainly({ socketPath }),
      ];
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 429]);
      expect(replies[2]?.headers['x-ratelimit-limit']).toBe('2');
    });

    it('sees the client that a trusted proxy forwards', async () => {
      const { store } = new Clock();
      const socketPath = temporarySocket();
      // Nothing but the proxy can reach the socket.
      await serve({
        gates: [{ store, limits: [perMinute(1)] }],
        trust: () => true,
        listen: { path: socketPath },
      });
      const statuses: unknown[] = [];
      for (const client of ['203.0.113.7', '203.0.113.7', '203.0.113.8']) {
        statuses.push(
          (await askPlainly({ socketPath, headers: { 'x-forwarded-for': client } })).status,
        );
      }
      expect(statuses).toEqual([200, 429, 200]);
    });
  });
});
