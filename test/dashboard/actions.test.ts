import { custom, fixedWindow, slidingWindow, tokenBucket } from '@tollgate/core';
import type { AuditEvent } from '@tollgate/dashboard';
import { describe, expect, it } from 'vitest';
import { Log } from '../http/log.ts';
import { onlyLimit, post, type Reply, send, stateOf } from './client.ts';
import { FRAMEWORKS } from './servers.ts';

const NASTY = `"><img src=x onerror=alert(1)>'</script>\u202e\u0000`;
const byHeader = custom(({ headers }) => decodeURIComponent(String(headers['x-key'] ?? 'nobody')));
const limit = { name: 'caller', by: byHeader, policy: fixedWindow({ limit: 3, window: '1h' }) };

function as(url: string, key: string): Promise<Reply> {
  return send(`${url}/limited`, { headers: { 'x-key': encodeURIComponent(key) } });
}

async function statuses(times: number, request: () => Promise<Reply>): Promise<number[]> {
  const all = [];
  for (let i = 0; i < times; i++) all.push((await request()).status);
  return all;
}

describe.each(FRAMEWORKS)('$name', ({ mount }) => {
  it('counts what was sent, in every span of time', async () => {
    const { url, page } = await mount({ gate: { limits: [limit] } });
    expect(await statuses(5, () => as(url, 'ada'))).toEqual([200, 200, 200, 429, 429]);
    for (const range of ['2m', '1h', '24h']) {
      const [found] = (await stateOf(page, `?range=${range}`)).limits;
      expect(found?.totals).toEqual({ admitted: 3, refused: 2, elsewhere: 0 });
      const total = (counts: readonly number[] = []): number => counts.reduce((a, b) => a + b, 0);
      expect(found?.counts.admitted).toHaveLength(120);
      expect(total(found?.counts.admitted)).toBe(3);
      expect(total(found?.counts.refused)).toBe(2);
      // The newest stand at the end.
      expect(total(found?.counts.admitted.slice(-30))).toBe(3);
    }
    expect((await onlyLimit(page)).refused).toMatchObject([{ key: 'ada', count: 2 }]);
  });

  it('says how a key stands, and charges nothing', async () => {
    const { url, page } = await mount({ gate: { limits: [limit] } });
    await as(url, 'ada');
    const look = async (key: string): Promise<unknown> => {
      const { status, headers, body } = await post(`${page}/api/peek`, { limit: 'caller', key });
      expect(status).toBe(200);
      expect(headers['content-type']).toBe('application/json');
      return JSON.parse(body);
    };
    for (let i = 0; i < 3; i++) {
      expect(await look('ada')).toMatchObject({
        allowed: true,
        reason: 'ok',
        remaining: 2,
        limit: 3,
        retryAfterMs: 0,
        policy: { algorithm: 'Fixed window', numbers: '3 per hour' },
      });
    }
    await statuses(3, () => as(url, 'ada'));
    const refused = (await look('ada')) as { retryAfterMs: number };
    expect(refused).toMatchObject({ allowed: false, reason: 'limited', remaining: 0 });
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(3_600_000);
    expect(await look('never seen')).toMatchObject({ remaining: 3, resetAfterMs: 0 });
    expect((await onlyLimit(page)).totals).toEqual({ admitted: 3, refused: 1, elsewhere: 0 });
  });

  it('resets, bans and frees a key, and tells the audit who did', async () => {
    const events: AuditEvent[] = [];
    const { url, page } = await mount({
      gate: { limits: [limit] },
      options: {
        onAudit: (event) => void events.push(event),
        authorize: async ({ headers }) => (headers.cookie === 'session=7' ? 'ada@ops' : 'bob@ops'),
      },
    });
    const act = (action: string, more: object = {}, Cookie = 'session=7'): Promise<Reply> =>
      post(`${page}/api/${action}`, { limit: 'caller', key: 'eve', ...more }, { Cookie });
    expect(await statuses(4, () => as(url, 'eve'))).toEqual([200, 200, 200, 429]);
    const before = Date.now();
    expect((await act('reset')).status).toBe(200);
    expect((await as(url, 'eve')).status).toBe(200);
    expect((await act('ban', { forMs: 60_000 })).status).toBe(200);
    const banned = await as(url, 'eve');
    expect([banned.status, banned.headers['retry-after']]).toEqual([
      429,
      expect.stringMatching(/^(59|60|3\d{3})$/),
    ]);
    expect(JSON.parse((await act('peek')).body)).toMatchObject({ reason: 'banned' });
    expect((await as(url, 'ada')).status).toBe(200);
    expect((await act('unban', {}, 'session=8')).status).toBe(200);
    expect((await as(url, 'eve')).status).toBe(200);
    const key = { limit: 'caller', key: 'eve', at: expect.any(Number) };
    expect(events).toEqual([
      { action: 'reset', by: 'ada@ops', ...key },
      { action: 'ban', by: 'ada@ops', forMs: 60_000, ...key },
      { action: 'unban', by: 'bob@ops', ...key },
    ]);
    for (const { at } of events) {
      expect(at).toBeGreaterThanOrEqual(before);
      expect(at).toBeLessThanOrEqual(Date.now());
    }
  });

  it('hands on what keys hold as data', async () => {
    const { url, page } = await mount({ gate: { limits: [limit] } });
    expect(await statuses(4, () => as(url, NASTY))).toEqual([200, 200, 200, 429]);
    const { body, headers } = await send(`${page}/api/state`);
    expect(headers['content-type']).toBe('application/json');
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(JSON.parse(body).limits[0].refused).toMatchObject([{ key: NASTY, count: 1 }]);
    expect((await send(`${page}/`)).body).not.toContain('onerror');
    const listed = { limit: 'caller', listed: NASTY };
    expect((await post(`${page}/api/reset`, listed)).status).toBe(200);
    expect((await as(url, NASTY)).status).toBe(200);
  });
});

/** What holds whatever the framework. */
const [{ mount }] = FRAMEWORKS as [(typeof FRAMEWORKS)[number]];

it('shows its own gate, beside others of the same process', async () => {
  const [one, other] = await Promise.all([
    mount({ gate: { limits: [limit] } }),
    mount({ gate: { limits: [limit] } }),
  ]);
  await statuses(5, () => as(one.url, 'ada'));
  expect((await onlyLimit(one.page)).totals).toEqual({ admitted: 3, refused: 2, elsewhere: 0 });
  expect((await onlyLimit(other.page)).totals).toEqual({ admitted: 0, refused: 0, elsewhere: 0 });
});

it('stays small, however many keys are refused', async () => {
  const none = { ...limit, policy: fixedWindow({ limit: 0, window: '1h' }) };
  const { page, limiter } = await mount({ gate: { limits: [none] } });
  for (let i = 0; i < 5_000; i++)
    await limiter.consume({ caller: `caller ${i} ${'x'.repeat(200)}` });
  const { body } = await send(`${page}/api/state`);
  const [found] = JSON.parse(body).limits;
  expect(found.totals.refused).toBe(5_000);
  expect(found.refused).toHaveLength(25);
  expect(body.length).toBeLessThan(20_000);
});

it.each(['hash', false] as const)('shows no key where logKeys is %s', async (logKeys) => {
  const log = new Log();
  const { url, page } = await mount({
    gate: { limits: [limit], logKeys },
    options: { logger: log },
  });
  await statuses(4, () => as(url, 'carol'));
  const state = await stateOf(page);
  expect(JSON.stringify(state)).not.toContain('carol');
  expect(state.keys).toBe(logKeys === 'hash' ? 'hash' : 'hidden');
  const [shown] = state.limits[0]?.refused ?? [];
  expect(shown).toMatchObject({
    count: 1,
    key: logKeys === 'hash' ? expect.stringMatching(/^[\w-]{22}$/) : '',
  });
  // It can be reset all the same: by its hash, or by whoever knows it.
  const body = logKeys === 'hash' ? { listed: shown?.key } : { key: 'carol' };
  expect((await post(`${page}/api/reset`, { limit: 'caller', ...body })).status).toBe(200);
  expect((await as(url, 'carol')).status).toBe(200);
  expect(
    (await post(`${page}/api/reset`, { limit: 'caller', listed: 'x'.repeat(22) })).status,
  ).toBe(404);
  expect(log.lines).toEqual([
    {
      level: 'warn',
      message: 'reset by an operator',
      details: {
        action: 'reset',
        limit: 'caller',
        key: logKeys === 'hash' ? shown?.key : undefined,
        by: undefined,
        at: expect.any(Number),
      },
    },
  ]);
});

it('looks at keys by the policy that their requests bring', async () => {
  const plans = {
    free: tokenBucket({ capacity: 2, rate: 1, per: '1h' }),
    pro: tokenBucket({ capacity: 5, rate: 1, per: '1h' }),
  };
  const plan = {
    ...limit,
    policy: (request: { readonly headers: Readonly<Record<string, unknown>> }) =>
      String(request.headers['x-key']).startsWith('pro') ? plans.pro : plans.free,
  };
  const { url, page } = await mount({ gate: { limits: [plan] } });
  const look = async (body: object): Promise<{ status: number; limit?: number }> => {
    const reply = await post(`${page}/api/peek`, { limit: 'caller', ...body });
    return { status: reply.status, limit: JSON.parse(reply.body).limit };
  };
  expect(await look({ key: 'free-1' })).toMatchObject({ status: 409 });
  await statuses(3, () => as(url, 'free-1'));
  expect(await look({ key: 'another' })).toEqual({ status: 200, limit: 2 });
  await statuses(6, () => as(url, 'pro-1'));
  expect(await look({ key: 'free-1' })).toEqual({ status: 200, limit: 2 });
  expect(await look({ key: 'pro-1' })).toEqual({ status: 200, limit: 5 });
  expect(await look({ key: 'another' })).toMatchObject({ status: 409 });
  expect(await look({ key: 'another', policy: 1 })).toEqual({ status: 200, limit: 5 });
  expect(await onlyLimit(page)).toMatchObject({
    varies: true,
    policies: [
      { algorithm: 'Token bucket', numbers: '2 at once, then 1 per hour' },
      { algorithm: 'Token bucket', numbers: '5 at once, then 1 per hour' },
    ],
  });
});

it('tells what one limit refused from what the others did', async () => {
  const outer = { ...limit, name: 'outer', policy: slidingWindow({ limit: 10, window: '1h' }) };
  const shadow = {
    ...limit,
    name: 'stricter',
    mode: 'shadow' as const,
    policy: fixedWindow({ limit: 1, window: '1h' }),
  };
  const { url, page } = await mount({ gate: { limits: [outer, limit, shadow] } });
  await statuses(5, () => as(url, 'ada'));
  const { limits } = await stateOf(page);
  expect(limits.map(({ name, shadow: isShadow, totals }) => [name, isShadow, totals])).toEqual([
    ['outer', false, { admitted: 3, refused: 0, elsewhere: 2 }],
    ['caller', false, { admitted: 3, refused: 2, elsewhere: 0 }],
    ['stricter', true, { admitted: 1, refused: 4, elsewhere: 0 }],
  ]);
});

it('reports a broken onAudit, and does what was asked', async () => {
  const logger = new Log();
  const onAudit = (): never => {
    throw new Error('no audit trail');
  };
  const { page } = await mount({ gate: { limits: [limit] }, options: { logger, onAudit } });
  expect((await post(`${page}/api/reset`, { limit: 'caller', key: 'ada' })).status).toBe(200);
  expect(logger.lines).toMatchObject([{ level: 'error', message: 'onAudit failed' }]);
});
