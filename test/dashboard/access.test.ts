import { createHash } from 'node:crypto';
import { createLimiter, fixedWindow } from '@tollgate/core';
import { dashboard } from '@tollgate/dashboard';
import { describe, expect, it } from 'vitest';
import { Log } from '../http/log.ts';
import { onlyLimit, post, send } from './client.ts';
import { FRAMEWORKS, MOUNTINGS, type Visitor } from './servers.ts';

const gate = { limits: [{ name: 'address', policy: fixedWindow({ limit: 3, window: '1h' }) }] };
const KEY = { limit: 'address', key: '127.0.0.1' };
const PATHS = ['', '/', '/api/state', '/api/peek', '/api/reset', '/nowhere'];

/** Headers of requests that did not come from the page. */
const FOREIGN = [
  { Origin: 'http://evil.example' },
  { Origin: 'http://127.0.0.1:1' },
  { Origin: 'http://127.0.0.1.evil.example' },
  { Origin: 'null' },
  { Origin: undefined },
  { Origin: 'file://127.0.0.1' },
  { 'Sec-Fetch-Site': 'cross-site' },
  { 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'none' },
];

const BODIES: readonly (readonly [
  status: number,
  headers: Readonly<Record<string, string | undefined>>,
  body: string,
])[] = [
  [415, { 'Content-Type': 'application/x-www-form-urlencoded' }, 'limit=address'],
  [415, { 'Content-Type': 'text/plain' }, JSON.stringify(KEY)],
  [415, { 'Content-Type': undefined }, JSON.stringify(KEY)],
  [415, { 'Content-Type': 'application/jsonp' }, JSON.stringify(KEY)],
  [400, {}, '{'],
  [400, {}, ''],
  [400, {}, '[]'],
  [400, {}, 'null'],
  [404, {}, '{"key":"127.0.0.1"}'],
  [404, {}, '{"limit":"constructor","key":"a"}'],
  [400, {}, '{"limit":"address"}'],
  [400, {}, '{"limit":"address","key":""}'],
  [400, {}, '{"limit":"address","key":7}'],
  [413, {}, JSON.stringify({ ...KEY, padding: 'x'.repeat(20_000) })],
];

describe.each(MOUNTINGS)('$name', ({ mount }) => {
  it('refuses everything unless authorize says yes', async () => {
    const { page, limiter } = await mount({ gate, options: { authorize: () => false } });
    await limiter.consume({ address: '127.0.0.1' });
    for (const path of PATHS) {
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'OPTIONS']) {
        const reply = await send(`${page}${path}`, { method });
        expect(reply.status, `${method} ${path}`).toBe(403);
        expect(reply.headers['cache-control']).toBe('no-store');
        expect(reply.headers['content-security-policy']).toContain("default-src 'none'");
      }
    }
    expect((await post(`${page}/api/reset`, KEY)).status).toBe(403);
    expect((await limiter.peek({ address: '127.0.0.1' })).remaining).toBe(2);
  });

  it('takes nothing but true and a name for a yes', async () => {
    let answer: () => unknown = () => true;
    const { page } = await mount({ gate, options: { authorize: () => answer() as boolean } });
    const failing = (): never => {
      throw new Error('no session store');
    };
    const noes = [false, undefined, null, '', 0, 1, {}, { name: 'ada' }, ['ada'], () => true];
    const all = [...noes.map((no) => () => no), async () => false, failing, async () => failing()];
    for (answer of all) expect((await send(`${page}/`)).status, String(answer)).toBe(403);
    for (answer of [() => true, () => 'ada', async () => true, async () => 'ada']) {
      expect((await send(`${page}/`)).status, String(answer)).toBe(200);
    }
  });

  it('says in the log why authorize did not say yes, and not to the caller', async () => {
    const logger = new Log();
    const authorize = async (): Promise<boolean> => {
      throw new Error('session store down');
    };
    const { page } = await mount({ gate, options: { authorize, logger } });
    expect((await send(`${page}/`)).body).not.toContain('session');
    // Whoever makes it fail again and again does not fill the log.
    for (let i = 0; i < 5; i++) expect((await send(`${page}/`)).status).toBe(403);
    expect(logger.lines).toMatchObject([
      { level: 'error', details: { err: { message: 'session store down' } } },
    ]);
  });

  it('gives authorize the request as the app knows it, and asks for each', async () => {
    const authorize = ({ user }: Visitor): boolean => user === 'ada';
    const { page } = await mount({ gate, options: { authorize } });
    const statuses = [];
    for (const user of ['ada', 'eve', 'ada']) {
      statuses.push((await send(`${page}/`, { headers: { 'x-user': user } })).status);
    }
    expect(statuses).toEqual([200, 403, 200]);
  });

  it('lets browsers run its own script and style only', async () => {
    const { page } = await mount({ gate });
    const { status, headers, body } = await send(`${page}/`);
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    const hashOf = (tag: string): string => {
      const [, text = ''] = new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(body) ?? [];
      expect(text.length).toBeGreaterThan(1_000);
      return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    };
    const policy = String(headers['content-security-policy']).split('; ');
    expect(policy.sort()).toEqual(
      [
        "default-src 'none'",
        `script-src ${hashOf('script')}`,
        `style-src ${hashOf('style')}`,
        "connect-src 'self'",
        'img-src data:',
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ].sort(),
    );
    expect(body).not.toMatch(/ on[a-z]+=| style=|javascript:|src="http|href="http/);
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'no-store',
    });
    expect(headers['access-control-allow-origin']).toBeUndefined();
  });

  it('answers where it is mounted, with a slash at the end and without', async () => {
    for (const prefix of ['/tollgate', '/internal/ops/limits']) {
      const { page } = await mount({ gate, prefix });
      const pages = await Promise.all([send(page), send(`${page}/`), send(`${page}?from=mail`)]);
      expect(pages.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect(new Set(pages.map(({ body }) => body)).size).toBe(1);
      expect((await send(`${page}/api/state?range=1h`)).status).toBe(200);
    }
  });

  it('knows its paths and their methods', async () => {
    const { page } = await mount({ gate });
    const answers: [string, string, number, string | undefined][] = [];
    for (const [method, path] of [
      ['HEAD', '/'],
      ['HEAD', '/api/state'],
      ['POST', '/'],
      ['DELETE', '/'],
      ['POST', '/api/state'],
      ['GET', '/api/peek'],
      ['GET', '/api/reset'],
      ['HEAD', '/api/ban'],
      ['PUT', '/api/unban'],
      ['OPTIONS', '/api/reset'],
      ['GET', '/api'],
      ['GET', '/api/state/'],
      ['POST', '/api/constructor'],
      ['GET', '/favicon.ico'],
      ['GET', '/..%2fapi/state'],
      ['GET', '/api/state?range=1y'],
      ['GET', '/api/state?range=toString'],
    ] as const) {
      const { status, headers, body } = await send(`${page}${path}`, { method });
      if (method === 'HEAD') expect(body).toBe('');
      answers.push([method, path, status, headers['allow']]);
    }
    expect(answers).toEqual([
      ['HEAD', '/', 200, undefined],
      ['HEAD', '/api/state', 200, undefined],
      ['POST', '/', 405, 'GET, HEAD'],
      ['DELETE', '/', 405, 'GET, HEAD'],
      ['POST', '/api/state', 405, 'GET, HEAD'],
      ['GET', '/api/peek', 405, 'POST'],
      ['GET', '/api/reset', 405, 'POST'],
      ['HEAD', '/api/ban', 405, 'POST'],
      ['PUT', '/api/unban', 405, 'POST'],
      ['OPTIONS', '/api/reset', 405, 'POST'],
      ['GET', '/api', 404, undefined],
      ['GET', '/api/state/', 404, undefined],
      ['POST', '/api/constructor', 404, undefined],
      ['GET', '/favicon.ico', 404, undefined],
      ['GET', '/..%2fapi/state', 404, undefined],
      ['GET', '/api/state?range=1y', 400, undefined],
      ['GET', '/api/state?range=toString', 400, undefined],
    ]);
  });

  it('changes nothing for requests from elsewhere', async () => {
    const { page, limiter } = await mount({ gate });
    await limiter.consume({ address: '127.0.0.1' });
    for (const headers of FOREIGN) {
      for (const action of ['peek', 'reset', 'ban', 'unban']) {
        const reply = await post(`${page}/api/${action}`, { ...KEY, forMs: 1_000 }, headers);
        expect(reply.status, `${action} ${JSON.stringify(headers)}`).toBe(403);
      }
    }
    expect((await limiter.peek({ address: '127.0.0.1' })).remaining).toBe(2);
    expect((await post(`${page}/api/reset`, KEY)).status).toBe(200);
    expect((await limiter.peek({ address: '127.0.0.1' })).remaining).toBe(3);
  });

  it('shows other sites no data, whatever the app allows them', async () => {
    const { page } = await mount({ gate });
    for (const site of ['cross-site', 'same-site']) {
      const headers = { 'Sec-Fetch-Site': site };
      expect((await send(`${page}/api/state`, { headers })).status).toBe(403);
      // A link to the page is fine.
      expect((await send(`${page}/`, { headers })).status).toBe(200);
    }
  });

  it('takes browsers without Sec-Fetch-Site by their Origin, in any case', async () => {
    const { page } = await mount({ gate });
    const older = { 'Sec-Fetch-Site': undefined };
    expect((await post(`${page}/api/peek`, KEY, older)).status).toBe(200);
    const named = { ...older, Host: 'Ops.Example:8080', Origin: 'https://ops.example:8080' };
    expect((await post(`${page}/api/peek`, KEY, named)).status).toBe(200);
  });

  it('goes by the origin that it is given, behind a proxy that changes Host', async () => {
    const { page } = await mount({ gate, options: { origin: 'https://ops.example' } });
    const from = (Origin: string): Promise<{ status: number; body: string }> =>
      post(`${page}/api/peek`, KEY, { Origin });
    expect((await from('https://ops.example')).status).toBe(200);
    expect((await from('http://ops.example')).status).toBe(403);
    expect((await from(new URL(page).origin)).status).toBe(403);
    expect((await from('https://ops.example:444')).status).toBe(403);
  });

  it('changes nothing for a body that it cannot read', async () => {
    const { page, limiter } = await mount({ gate });
    await limiter.consume({ address: '127.0.0.1' });
    for (const [status, headers, body] of BODIES) {
      const reply = await post(`${page}/api/reset`, body, headers);
      expect(reply.status, `${body} ${reply.body}`).toBe(status);
      expect(JSON.parse(reply.body)).toEqual({ error: expect.any(String) });
    }
    for (const forMs of [undefined, 0, -1, '600000', 400 * 86_400_000 + 1, null]) {
      expect((await post(`${page}/api/ban`, { ...KEY, forMs })).status).toBe(400);
    }
    expect(await limiter.peek({ address: '127.0.0.1' })).toMatchObject({
      allowed: true,
      remaining: 2,
    });
  });
});

describe.each(FRAMEWORKS)('$name', ({ mount }) => {
  it.each(['json', 'raw', 'text'] as const)(
    'reads bodies that a %s parser took',
    async (parser) => {
      const { page } = await mount({ gate, parser });
      expect((await post(`${page}/api/peek`, KEY)).status).toBe(200);
      expect((await post(`${page}/api/peek`, '[]')).status).toBe(400);
      const asText = { 'Content-Type': 'text/plain' };
      expect((await post(`${page}/api/peek`, '{}', asText)).status).toBe(415);
    },
  );

  it('is outside the limits that it shows', async () => {
    const { page, url } = await mount({ gate });
    for (let i = 0; i < 20; i++) expect((await send(`${page}/api/state`)).status).toBe(200);
    for (let i = 0; i < 3; i++) expect((await send(`${url}/limited`)).status).toBe(200);
    expect((await send(`${url}/limited`)).status).toBe(429);
    expect((await send(`${page}/`)).status).toBe(200);
    expect((await onlyLimit(page)).totals).toEqual({ admitted: 3, refused: 1, elsewhere: 0 });
  });
});

it.each<[string, object]>([
  ['authorize', {}],
  ['authorize', { authorize: true }],
  ['authorise', { authorize: () => true, authorise: () => true }],
  ['origin', { authorize: () => true, origin: 'ops.example' }],
  ['origin', { authorize: () => true, origin: 'https://ops.example/tollgate' }],
  ['origin', { authorize: () => true, origin: 'ftp://ops.example' }],
  ['onAudit', { authorize: () => true, onAudit: 'log' }],
])('a mistake in %s fails when it is made', (path, options) => {
  const limiter = createLimiter(gate);
  expect(() => dashboard({ limiter }, options as never)).toThrow(
    expect.objectContaining({ name: 'TollgateConfigError', path }),
  );
});

it('wants a gate and options', () => {
  const limiter = createLimiter(gate);
  expect(() => dashboard({ limiter }, undefined as never)).toThrow('authorize');
  for (const gate of [undefined, null, {}, { limiter: {} }]) {
    expect(() => dashboard(gate as never, { authorize: () => true })).toThrow('expected a gate');
  }
});
