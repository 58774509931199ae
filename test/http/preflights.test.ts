import { fixedWindow } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, Call, Step } from './app.ts';
import { ask } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const ORIGIN = { origin: 'https://shop.example' };
const PREFLIGHT = {
  method: 'OPTIONS',
  headers: { ...ORIGIN, 'access-control-request-method': 'POST' },
};
const POST = { method: 'POST', headers: ORIGIN };

/** What CORS middleware does: names the origin, and answers preflights itself. */
const cors: Step = ({ raw, response }: Call) => {
  response.setHeader('access-control-allow-origin', ORIGIN.origin);
  return raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined
    ? { status: 204, headers: { 'access-control-allow-methods': 'POST' } }
    : undefined;
};

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  function gate(limit: number, more: AppGate = {}): AppGate {
    return { store: new Clock().store, policy: fixedWindow({ limit, window: '60s' }), ...more };
  }

  test.each<[string, 'before' | 'after']>([
    ['before', 'before'],
    ['after', 'after'],
  ])('with CORS %s the gate, preflights are free and never refused', async (_, where) => {
    const { url } = await serve({ gates: [gate(10)], [where]: [cors] });
    for (let i = 0; i < 10; i++) {
      expect([(await ask(url, PREFLIGHT)).status, (await ask(url, POST)).status]).toEqual([
        204, 200,
      ]);
    }
    expect((await ask(url, POST)).status).toBe(429);
    const preflight = await ask(url, PREFLIGHT);
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('ratelimit')).toBeNull();
  });

  it('charges preflights when asked to', async () => {
    const { url } = await serve({ gates: [gate(2, { chargePreflights: true })], after: [cors] });
    expect((await ask(url, PREFLIGHT)).headers.get('ratelimit')).toBe('"default";r=1;t=60');
    expect((await ask(url, POST)).status).toBe(200);
    expect((await ask(url, PREFLIGHT)).status).toBe(429);
  });

  test.each<[string, RequestInit]>([
    ['OPTIONS alone', { method: 'OPTIONS' }],
    ['OPTIONS with an origin', { method: 'OPTIONS', headers: ORIGIN }],
    [
      'OPTIONS without an origin',
      { method: 'OPTIONS', headers: { 'access-control-request-method': 'POST' } },
    ],
    ['POST in the clothes of a preflight', { ...PREFLIGHT, method: 'POST' }],
  ])('charges %s', async (_, init) => {
    const { url } = await serve({ gates: [gate(2)] });
    await ask(url, init);
    await ask(url, init);
    expect((await ask(url, init)).status).toBe(429);
  });
});
