import { type Store, memoryStore } from '@tollgate/core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { build } from './readme/built.ts';
import { curlsOf, start, untilRefused } from './readme/started.ts';
import { RedisServer } from './redis/server.ts';

interface Started {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** What `examples/gateway.mjs` exports. */
interface Gateway {
  readonly startAll: (options?: {
    readonly store?: Store;
    readonly maxWaitMs?: number;
  }) => Promise<Started>;
}

async function startGateway(options: Parameters<Gateway['startAll']>[0] = {}): Promise<{
  readonly get: (path: string, key?: string) => Promise<Response>;
  readonly translate: (key: string) => Promise<Response>;
}> {
  const file = new URL('../examples/gateway.mjs', import.meta.url).href;
  const { startAll } = (await import(file)) as Gateway;
  const { url, close } = await startAll(options);
  onTestFinished(close);
  return {
    get: (path, key) =>
      fetch(`${url}${path}`, key === undefined ? {} : { headers: { 'X-API-Key': key } }),
    translate: (key) =>
      fetch(`${url}/translate`, {
        method: 'POST',
        headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
        body: '{"text":"hi"}',
      }),
  };
}

function untimed(response: Response, field: string): string | undefined {
  return response.headers.get(field)?.replaceAll(/;t=\d+/g, '');
}

describe('the gateway', () => {
  it('merges the limits of the service with its own, and drops those of the provider', async () => {
    const now = 1_800_000_000_000_000;
    const { get, translate } = await startGateway({ store: memoryStore({ clock: () => now }) });
    const status = await get('/status', 'key-birch');
    expect(await status.json()).toEqual({ ok: true });
    expect(untimed(status, 'ratelimit')).toBe('"address";r=49, "key";r=19, "tenant";r=59');
    const translated = await translate('key-birch');
    expect(await translated.json()).toEqual({ text: 'HI' });
    expect(untimed(translated, 'ratelimit')).toBe(
      '"address";r=48, "key";r=18, "tenant";r=58, "translations";r=4',
    );
    expect(untimed(translated, 'ratelimit-policy')).toBe(
      '"address";q=50;w=5, "key";q=20;w=4, "tenant";q=60;w=60, "translations";q=5;w=60',
    );
  });

  it('hands on a refusal of the service, with the wait that it names', async () => {
    const now = 1_800_000_000_000_000;
    const { get, translate } = await startGateway({
      store: memoryStore({ clock: () => now }),
      maxWaitMs: 0,
    });
    // Two pass the provider; the clock stands still, so the others have no place there.
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await translate('key-acme')).status);
    expect(statuses).toEqual([200, 200, 503, 503, 503]);
    const refused = await translate('key-acme');
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('60');
    expect(await refused.json()).toMatchObject({ 'violated-policies': ['translations'] });
    // Another operation, and another tenant, are not concerned.
    expect((await get('/status', 'key-acme')).status).toBe(200);
    expect((await translate('key-birch')).status).toBe(503);
  });

  it('answers 503 with a time where the provider is busy: that is nothing of the caller’s', async () => {
    const now = 1_800_000_000_000_000;
    const { translate } = await startGateway({
      store: memoryStore({ clock: () => now }),
      maxWaitMs: 0,
    });
    const answers = [await translate('key-acme'), await translate('key-acme')];
    const busy = await translate('key-birch');
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(busy.status).toBe(503);
    expect(busy.headers.get('retry-after')).toBe('1');
    expect(await busy.json()).toEqual({ error: 'The provider is busy.' });
    expect(untimed(busy, 'ratelimit')).toContain('"translations";r=4');
  });

  it('waits for the provider where there is time, and knows no strangers', async () => {
    const { get, translate } = await startGateway({ maxWaitMs: 20_000 });
    const answers = await Promise.all(Array.from({ length: 4 }, () => translate('key-acme')));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await get('/status')).status).toBe(401);
  });
});

describe('started directly', () => {
  let redis: RedisServer;

  beforeAll(async () => {
    build();
    redis = await RedisServer.start();
  }, 180_000);

  afterAll(() => redis?.stop());

  it('gateway.mjs serves, refuses and stops', async () => {
    const { output, interrupt } = await start('gateway.mjs', 'Ctrl-C stops');
    const [request] = curlsOf(output());
    if (request === undefined) throw new Error(`No curl line in:\n${output()}`);
    const { refusal } = await untilRefused(request, 20);
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await interrupt()).toBe(0);
  });

  it.each(['memory', 'Redis'])(
    'ten workers share 100 messages a second through %s',
    async (where) => {
      const REDIS_URL = where === 'Redis' ? `redis://127.0.0.1:${redis.port}` : '';
      const { output, ended } = await start('outbound.mjs', 'never printed', {
        REDIS_URL,
        MESSAGES: '25',
      });
      expect(await ended).toBe(0);
      const text = output();
      expect(text).toContain(`through ${where}`);
      const number = (label: string): number =>
        Number(new RegExp(`^ +${label} +([\\d.]+)$`, 'm').exec(text)?.[1] ?? NaN);
      expect(number('messages sent')).toBe(250);
      // Ten at once and a hundred a second leave; on the way some draw together.
      expect(number('in the busiest second')).toBeLessThanOrEqual(100 + 10 + 20);
      expect(number('seconds')).toBeGreaterThanOrEqual((250 - 10) / 100 - 0.1);
      // The provider takes twice as many at once. On a slow machine a few may be refused, and sent again.
      expect(number('refused by the provider')).toBeLessThanOrEqual(25);
    },
  );
});
