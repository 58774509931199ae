import {
  apiKey,
  bearerToken,
  clientIp,
  fixedWindow,
  type KeyFunction,
  secret,
  custom,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { type App, type AppRequest, header } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FRAMEWORKS } from './servers.ts';

const policy = fixedWindow({ limit: 100, window: '60s' });
const FORWARDED = { headers: { 'x-forwarded-for': '198.51.100.1' } };

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  async function listening(app: Partial<App>, ...bys: (KeyFunction<AppRequest> | undefined)[]) {
    const log = new Log();
    const limits = bys.map((by, i) => ({ name: `limit-${i}`, policy, ...(by && { by }) }));
    const server = await serve({
      gates: [{ store: new Clock().store, logger: log, limits }],
      ...app,
    });
    return { ...server, log };
  }

  test.each<[string, App['trust'], code: string | undefined]>([
    ['nobody', undefined, 'TOLLGATE_UNTRUSTED_PROXY'],
    ['nobody, said so', false, 'TOLLGATE_UNTRUSTED_PROXY'],
    ['everybody', true, 'TOLLGATE_TRUSTS_EVERYBODY'],
    ['everybody, by ranges', ['0.0.0.0/1', '128.0.0.0/1'], 'TOLLGATE_TRUSTS_EVERYBODY'],
    ['everybody, by a function', () => true, 'TOLLGATE_TRUSTS_EVERYBODY'],
    ['one hop', 1, undefined],
    ['an address', '127.0.0.1', undefined],
    ['a name for addresses', 'loopback', undefined],
    ['a list', ['10.0.0.0/8', '127.0.0.1'], undefined],
    ['whom a function knows', (address) => address === '127.0.0.1', undefined],
  ])('says once what is wrong with trusting %s', async (_, trust, code) => {
    const { url, log } = await listening({ ...(trust !== undefined && { trust }) }, clientIp());
    await ask(url);
    expect(log.codes).toEqual([]);
    await inTurn(url, 3, FORWARDED);
    expect(log.codes).toEqual(code === undefined ? [] : [code]);
    expect(log.lines.map(({ level }) => level)).toEqual(code === undefined ? [] : ['warn']);
  });

  it('says how to mend it', async () => {
    const { url, log } = await listening({}, clientIp());
    await ask(url, FORWARDED);
    expect(log.lines[0]?.message).toMatch(/trustProxy.*trust proxy/);
    expect(JSON.stringify(log.lines)).not.toContain('198.51.100.1');
  });

  it('says once that no limit applied', async () => {
    const { url, log } = await listening({}, header('x-user'), apiKey({ optional: true }));
    expect(await inTurn(url, 1, { headers: { 'x-user': 'ada' } })).toEqual([200]);
    expect(log.codes).toEqual([]);
    expect(await inTurn(url, 3)).toEqual([200, 200, 200]);
    expect(log.codes).toEqual(['TOLLGATE_NO_LIMIT']);
  });

  it('does not take a request for unlimited that was meant to be', async () => {
    const log = new Log();
    const limits = [
      { name: 'skipped', policy, skip: () => true },
      { name: 'allowed', policy, allowList: ['127.0.0.1'] },
    ];
    const { url } = await serve({
      gates: [{ store: new Clock().store, logger: log, limits }],
      routes: [{ path: '/' }, { path: '/health', rateLimit: false }],
    });
    await ask(url);
    await ask(`${url}/health`);
    await ask(url, {
      method: 'OPTIONS',
      headers: { origin: 'https://shop.example', 'access-control-request-method': 'GET' },
    });
    expect(log.codes).toEqual([]);
  });

  test.each<[string, boolean, (KeyFunction<AppRequest> | undefined)[]]>([
    ['an API key', true, [apiKey()]],
    ['a bearer token', true, [bearerToken()]],
    ['a hidden API key', true, [secret(apiKey())]],
    ['two such keys', true, [apiKey(), bearerToken({ optional: true })]],
    ['an API key beside the address', false, [apiKey(), clientIp()]],
    ['the address', false, [undefined]],
    ['what the application says', false, [custom(header('x-user'))]],
  ])('with %s: tells whether callers choose all their budgets', async (_, warned, bys) => {
    const { url, log } = await listening({}, ...bys);
    expect(log.codes).toEqual(warned ? ['TOLLGATE_FREE_KEYS'] : []);
    await inTurn(url, 2, { headers: { 'x-api-key': 'k', 'x-user': 'ada' } });
    expect(log.codes).toHaveLength(warned ? 1 : 0);
  });

  it('says for every gate what is wrong with it', async () => {
    const logs = [new Log(), new Log()];
    const { url } = await serve({
      gates: logs.map((logger, i) => ({
        store: new Clock().store,
        logger,
        limits: [{ name: `limit-${i}`, policy, by: header('x-user') }],
      })),
    });
    await inTurn(url, 2);
    for (const log of logs) expect(log.codes).toEqual(['TOLLGATE_NO_LIMIT']);
  });
});
