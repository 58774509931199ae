import { apiKey, bearerToken, clientIp, fixedWindow, secret, type Store } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { header } from '../http/app.ts';
import { inTurn } from '../http/clients.ts';
import { silent } from '../http/log.ts';
import { FRAMEWORKS, type Server } from '../http/servers.ts';
import { RedisServer } from './server.ts';

const one = fixedWindow({ limit: 1, window: '1d' });
const SECRETS = ['k-very-secret', 't-very-secret', 'mail@very.secret'] as const;
const HEADERS = {
  'x-api-key': SECRETS[0],
  authorization: `Bearer ${SECRETS[1]}`,
  'x-mail': SECRETS[2],
};
const FLEET = { fleet: true } as const;

let redis: RedisServer;
let root: Redis;

beforeAll(async () => {
  redis = await RedisServer.start();
  root = new Redis(redis.port, '127.0.0.1');
});

afterAll(async () => {
  root?.disconnect();
  await redis?.stop();
});

beforeEach(() => root.flushall());

/** Another connection for each server, as processes have. */
function store(): Store {
  return redisStore(new Redis(redis.port, '127.0.0.1', { lazyConnect: true }), {
    deadlineMs: 10_000,
  });
}

/** Every key and value in Redis, as one text. */
async function everything(): Promise<string> {
  const texts: string[] = [];
  for (const key of await root.keys('*')) {
    texts.push(key, (await root.dumpBuffer(key)).toString('latin1'));
    if ((await root.type(key)) === 'string') texts.push((await root.get(key)) ?? '');
  }
  return texts.join('\n');
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('lists what all servers refused, and no secret, nor leaves one in Redis', async () => {
    const limits = [
      { name: 'key', by: apiKey(), policy: one },
      { name: 'token', by: bearerToken(), policy: one },
      { name: 'mail', by: secret(header('x-mail')), policy: one },
    ];
    const start = (): Promise<Server> =>
      serve({ gates: [{ store: store(), limits, logger: silent }] });
    const [first, second] = [await start(), await start()];
    expect(await inTurn(first.url, 3, { headers: HEADERS })).toEqual([200, 429, 429]);
    expect(await inTurn(second.url, 3, { headers: HEADERS })).toEqual([429, 429, 429]);
    await second.gate.close();
    const list = await first.gate.mostRefused(undefined, FLEET);
    expect(list.map(({ limit, key, count }) => `${limit} ${key} ${count}`).toSorted()).toEqual([
      expect.stringMatching(/^key key:[\w-]{22} 5$/),
      expect.stringMatching(/^mail secret:[\w-]{22} 5$/),
      expect.stringMatching(/^token bearer:[\w-]{22} 5$/),
    ]);
    expect(first.gate.mostRefused('key')).toMatchObject([{ count: 2 }]);
    const known = `${JSON.stringify(list)}\n${await everything()}`;
    expect(known).toContain('key:');
    for (const each of SECRETS) expect(known).not.toContain(each);
  });

  it('lists addresses that a deny list refuses, and keeps them to itself as logKeys says', async () => {
    const limits = [{ name: 'api', by: clientIp(), policy: one, denyList: ['127.0.0.0/8'] }];
    const { url, gate } = await serve({
      gates: [{ store: store(), limits, logger: silent, logKeys: 'hash' }],
    });
    expect(await inTurn(url, 2)).toEqual([403, 403]);
    const list = await gate.mostRefused('api', FLEET);
    expect(list).toMatchObject([{ key: expect.stringMatching(/^[\w-]{22}$/), count: 2 }]);
    expect(await everything()).not.toContain('127.0.0.1');
  });
});
