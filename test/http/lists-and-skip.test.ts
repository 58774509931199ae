import { fixedWindow, type MemoryStore } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, AppRequest } from './app.ts';
import { ask, inTurn, type Reply } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const policy = fixedWindow({ limit: 1, window: '60s' });
const five = fixedWindow({ limit: 5, window: '60s' });

const LISTED: readonly [entry: string, listed: readonly string[], others: readonly string[]][] = [
  ['203.0.113.7', ['203.0.113.7', '203.0.113.7:40001', '::ffff:203.0.113.7'], ['203.0.113.8']],
  ['203.0.113.0/24', ['203.0.113.0', '203.0.113.255', '::ffff:cb00:7101'], ['203.0.114.0']],
  ['::ffff:203.0.113.7', ['203.0.113.7', '::ffff:203.0.113.7'], ['203.0.113.8']],
  ['::ffff:203.0.113.0/120', ['203.0.113.9'], ['203.0.112.9']],
  ['2001:db8::/32', ['2001:db8::1', '[2001:db8:ffff::1]:443', '2001:DB8::A'], ['2001:db9::1']],
  ['2001:db8::1', ['2001:db8::1', '2001:db8:0:0::1'], ['2001:db8::2']],
  ['::/0', ['2001:db8::1'], ['203.0.113.7', '::ffff:203.0.113.7']],
  ['0.0.0.0/0', ['203.0.113.7', '::ffff:203.0.113.7'], ['2001:db8::1']],
];

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  async function listing(
    list: Pick<NonNullable<AppGate['limits']>[number], 'allowList' | 'denyList'>,
  ) {
    const { store } = new Clock();
    const server = await serve({
      gates: [{ store, limits: [{ name: 'listed', policy: five, ...list }] }],
      trust: 'loopback',
    });
    const from = (address: string): Promise<Reply> =>
      ask(server.url, { headers: { 'x-forwarded-for': address } });
    return { ...server, store, from };
  }

  test.each(LISTED)(
    'an allow list with %s: never limits what is in it',
    async (entry, listed, others) => {
      const { from, store } = await listing({ allowList: [entry] });
      for (const address of [...listed, ...listed]) {
        const reply = await from(address);
        expect([address, reply.status, reply.headers.get('ratelimit')]).toEqual([
          address,
          200,
          null,
        ]);
      }
      expect(store.size).toBe(0);
      for (const address of others) {
        expect((await from(address)).headers.get('ratelimit')).toContain('"listed";r=');
      }
    },
  );

  test.each(LISTED)('a deny list with %s: forbids what is in it', async (entry, listed, others) => {
    const { from, store } = await listing({ denyList: [entry] });
    for (const address of listed)
      expect([address, (await from(address)).status]).toEqual([address, 403]);
    expect(store.size).toBe(0);
    for (const address of others)
      expect([address, (await from(address)).status]).toEqual([address, 200]);
  });

  it('forbids before anything is charged, and says no more than that', async () => {
    const { store } = new Clock();
    const reasons: string[] = [];
    const { url, gate, errors } = await serve({
      gates: [
        {
          store,
          limits: [
            { name: 'open', policy },
            { name: 'closed', policy, denyList: ['127.0.0.0/8'] },
          ],
          onReject: (_request, { reason, retryAfterMs }) =>
            reasons.push(`${reason} ${retryAfterMs}`),
        },
      ],
    });
    const reply = await ask(url);
    expect(reply.status).toBe(403);
    expect(reply.headers.get('retry-after')).toBeNull();
    expect(reply.headers.get('ratelimit')).toBeNull();
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(reply.headers.get('content-type')).toBe('application/problem+json');
    expect(JSON.parse(reply.text)).toEqual({
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      'violated-policies': ['closed'],
    });
    expect([store.size, errors, reasons]).toEqual([0, [], ['denied Infinity']]);
    expect(gate.rejections()).toMatchObject({ closed: { count: 1 } });
  });

  it('invents no policy for a plan that was never looked up', async () => {
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [{ name: 'plan', policy: () => policy, denyList: ['127.0.0.1'] }],
        },
      ],
    });
    const { status, headers } = await ask(url);
    expect([status, headers.get('ratelimit-policy')]).toEqual([403, null]);
  });

  it('hands a forbidden request to an error handler with its status', async () => {
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [{ name: 'closed', policy, denyList: ['::1', '127.0.0.1'] }],
        },
      ],
      onError: (error) => ({ status: (error as { statusCode: number }).statusCode, body: 'mine' }),
    });
    const reply = await ask(url);
    expect([reply.status, reply.text]).toEqual([403, 'mine']);
  });

  it('forbids what is in both lists', async () => {
    const { from } = await listing({ allowList: ['203.0.113.0/24'], denyList: ['203.0.113.7'] });
    expect((await from('203.0.113.7')).status).toBe(403);
    expect((await from('203.0.113.8')).status).toBe(200);
  });

  it('has nobody in an empty list, and no address that is none in any', async () => {
    const empty = await listing({ denyList: [], allowList: [] });
    expect((await empty.from('203.0.113.7')).headers.get('ratelimit')).toBe('"listed";r=4;t=60');
    const forged = await listing({ allowList: ['127.0.0.1'], denyList: ['::1'] });
    expect((await forged.from('unknown')).headers.get('ratelimit')).toBe('"listed";r=4;t=60');
    expect((await forged.from('')).headers.get('ratelimit')).toBeNull();
  });

  describe('skip', () => {
    function charged(store: MemoryStore): boolean {
      return store.size > 0;
    }

    test.each<[string, (request: AppRequest) => boolean | Promise<boolean>]>([
      ['at once', ({ headers }) => headers['x-internal'] === 'yes'],
      ['later', async ({ headers }) => headers['x-internal'] === 'yes'],
    ])('lifts a limit for the requests that it says so %s', async (_, skip) => {
      const { store } = new Clock();
      const { url } = await serve({
        gates: [{ store, limits: [{ name: 'plain', policy, skip }] }],
      });
      expect(await inTurn(url, 3, { headers: { 'x-internal': 'yes' } })).toEqual([200, 200, 200]);
      expect(charged(store)).toBe(false);
      expect(await inTurn(url, 2)).toEqual([200, 429]);
    });

    it('lifts its own limit only', async () => {
      const { store } = new Clock();
      const { url } = await serve({
        gates: [
          {
            store,
            limits: [
              { name: 'skipped', policy, skip: () => true },
              { name: 'kept', policy: fixedWindow({ limit: 2, window: '60s' }) },
            ],
          },
        ],
      });
      expect(await inTurn(url, 3)).toEqual([200, 200, 429]);
      expect((await ask(url)).headers.get('ratelimit-policy')).toBe('"kept";q=2;w=60');
    });

    it('asks for no key of a request that it lets through', async () => {
      let asked = 0;
      const by = (): string => `${++asked}`;
      const { url } = await serve({
        gates: [
          { store: new Clock().store, limits: [{ name: 'plain', policy, by, skip: () => true }] },
        ],
      });
      await ask(url);
      expect(asked).toBe(0);
    });
  });
});
