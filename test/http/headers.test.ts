import { concurrency, fixedWindow, type HeaderForm, slidingLog, tokenBucket } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { type AppGate, textStream } from './app.ts';
import { ask, type Reply } from './clients.ts';
import { Clock, START } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const FIELDS =
  /^(?:x-)?ratelimit(?:$|-policy$|-limit$|-remaining$|-reset$)|^retry-after$|^cache-control$/;

/** What a response says of limits, by field. */
function said({ headers }: Reply): Record<string, string> {
  return Object.fromEntries([...headers].filter(([field]) => FIELDS.test(field)));
}

const minute = { name: 'minute', policy: fixedWindow({ limit: 2, window: '60s' }) };
const hour = { name: 'hour', policy: fixedWindow({ limit: 10, window: '1h' }) };

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  const DRAFT_6 = {
    'ratelimit-limit': '2',
    'ratelimit-remaining': '1',
    'ratelimit-reset': '31',
  };
  const DRAFT_11 = {
    'ratelimit-policy': '"minute";q=2;w=60, "hour";q=10;w=3600',
    ratelimit: '"minute";r=1;t=31, "hour";r=9;t=3571',
  };

  test.each<[string, readonly HeaderForm[] | false | undefined, Record<string, string>]>([
    ['the default', undefined, { ...DRAFT_6, ...DRAFT_11 }],
    ['draft-11', ['draft-11'], DRAFT_11],
    ['draft-6', ['draft-6'], { ...DRAFT_6, 'ratelimit-policy': '2;w=60, 10;w=3600' }],
    [
      'draft-7',
      ['draft-7'],
      {
        ratelimit: 'limit=2, remaining=1, reset=31',
        'ratelimit-policy': '2;w=60, 10;w=3600',
      },
    ],
    [
      'x-ratelimit',
      ['x-ratelimit'],
      {
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '1',
        'x-ratelimit-reset': `${START / 1_000 + 60}`,
      },
    ],
    ['no form', false, {}],
  ])('writes %s', async (_, headers, expected) => {
    const clock = new Clock();
    clock.at(29_800);
    const { url } = await serve({
      gates: [
        { store: clock.store, limits: [minute, hour], ...(headers !== undefined && { headers }) },
      ],
    });
    expect(said(await ask(url))).toEqual(expected);
    await ask(url);
    const refusal = said(await ask(url));
    expect(refusal).toMatchObject({ 'retry-after': '31', 'cache-control': 'no-store' });
    expect(Object.keys(refusal).toSorted()).toEqual(
      [...Object.keys(expected), 'cache-control', 'retry-after'].toSorted(),
    );
  });

  it('says nothing where no limit applied', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, limits: [{ ...minute, by: () => undefined }] }],
    });
    expect(said(await ask(url))).toEqual({});
  });

  it('labels every kind of response', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 100, window: '60s' }) }],
      routes: [
        { path: '/empty', handler: () => ({ status: 204 }) },
        { path: '/unchanged', handler: () => ({ status: 304 }) },
        { path: '/moved', handler: () => ({ status: 302, headers: { location: '/' } }) },
        { path: '/stream', handler: () => ({ body: textStream('a', 'b') }) },
        { path: '/bad', handler: () => ({ status: 400, body: 'bad' }) },
        {
          path: '/broken',
          handler: () => {
            throw new Error('broken');
          },
        },
      ],
    });
    const paths = ['empty', 'unchanged', 'moved', 'stream', 'bad', 'broken', 'nope'];
    const seen: unknown[] = [];
    for (const path of paths) {
      const reply = await ask(`${url}/${path}`);
      seen.push([reply.status, reply.headers.get('ratelimit-remaining')]);
    }
    const statuses = [204, 304, 302, 200, 400, 500, 404];
    expect(seen).toEqual(statuses.map((status, i) => [status, `${99 - i}`]));
    expect((await ask(`${url}/empty`, { method: 'HEAD' })).headers.get('ratelimit-remaining')).toBe(
      '92',
    );
  });

  it('does not stop a client from following a redirect', async () => {
    const { store } = new Clock();
    const headers = ['x-ratelimit', 'draft-6', 'draft-11'] as const;
    const { url } = await serve({
      gates: [{ store, limits: [minute], headers }],
      routes: [
        { path: '/moved', handler: () => ({ status: 302, headers: { location: '/' } }) },
        { path: '/unchanged', handler: () => ({ status: 304 }) },
      ],
    });
    expect(said(await ask(`${url}/moved`))).toHaveProperty('ratelimit-remaining', '1');
    const last = await ask(`${url}/moved`);
    expect(said(last)).toEqual({});
    expect([last.status, last.headers.get('location')]).toEqual([302, '/']);
    expect(said(await ask(`${url}/moved`))).toHaveProperty('ratelimit-remaining', '0');
  });

  it('labels 304 with nothing remaining, which sends nobody anywhere', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [{ store, policy: fixedWindow({ limit: 1, window: '60s' }) }],
      routes: [{ path: '/', handler: () => ({ status: 304 }) }],
    });
    expect(said(await ask(url))).toHaveProperty('ratelimit-remaining', '0');
  });

  it('describes the tightest limit, or the one to wait for', async () => {
    const clock = new Clock();
    const perMinute = { name: 'minute', policy: fixedWindow({ limit: 1, window: '60s' }) };
    const { url } = await serve({ gates: [{ store: clock.store, limits: [perMinute, hour] }] });
    expect(said(await ask(url))).toHaveProperty('ratelimit-limit', '1');
    clock.at(1_000);
    expect(said(await ask(url))).toMatchObject({ 'retry-after': '59', 'ratelimit-limit': '1' });
    for (let i = 1; i < 10; i++) {
      clock.at(i * 60_000);
      expect((await ask(url)).status).toBe(200);
    }
    clock.at(600_000);
    const refusal = await ask(url);
    expect(said(refusal)).toMatchObject({
      'retry-after': '3000',
      'ratelimit-limit': '10',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '3000',
      ratelimit: '"minute";r=1, "hour";r=0;t=3000',
    });
    expect(JSON.parse(refusal.text)).toHaveProperty('violated-policies', ['hour']);
  });

  it('leaves concurrency out of the forms that know only quotas per window', async () => {
    const { store } = new Clock();
    const slots = { name: 'slots', policy: concurrency({ limit: 3 }) };
    const headers = ['x-ratelimit', 'draft-6', 'draft-11'] as const;
    const gate: AppGate = { store, headers, limits: [slots, minute] };
    const { url } = await serve({ gates: [gate] });
    expect(said(await ask(url))).toMatchObject({
      'x-ratelimit-limit': '2',
      'ratelimit-limit': '2',
      'ratelimit-policy': '"slots";q=3;qu="concurrent-requests", "minute";q=2;w=60',
      ratelimit: '"slots";r=2, "minute";r=1;t=60',
    });
  });

  it('never says that less than nothing remains', async () => {
    for (const [policy, lowered, wait] of [
      [slidingLog({ limit: 10, window: '60s' }), slidingLog({ limit: 5, window: '60s' }), '55'],
      [fixedWindow({ limit: 10, window: '60s' }), fixedWindow({ limit: 5, window: '60s' }), '52'],
    ] as const) {
      const clock = new Clock();
      const { url, gate } = await serve({ gates: [{ store: clock.store, policy }] });
      for (let i = 0; i < 8; i++) {
        clock.at(i * 1_000);
        expect((await ask(url)).status).toBe(200);
      }
      gate.limiter.update('default', lowered);
      clock.at(8_000);
      expect(said(await ask(url))).toMatchObject({
        'retry-after': wait,
        'ratelimit-remaining': '0',
        'ratelimit-limit': '5',
      });
    }
  });

  it('shows buckets by the rate that they give out', async () => {
    const { store } = new Clock();
    const policy = tokenBucket({ capacity: 10, rate: 1, per: '1s' });
    const { url } = await serve({ gates: [{ store, policy }] });
    expect(said(await ask(url))).toMatchObject({
      'ratelimit-policy': '"default";q=10;w=10',
      ratelimit: '"default";r=9;t=1',
    });
  });
});
