import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { build } from './readme/built.ts';
import { curlsOf, start, type Started } from './readme/started.ts';
import { RedisServer } from './redis/server.ts';

const PASSWORD = 'open-sesame';

let server: RedisServer;
let redis: Redis;
let REDIS_URL: string;

beforeAll(async () => {
  build();
  server = await RedisServer.start(['--requirepass', PASSWORD]);
  REDIS_URL = `redis://:${PASSWORD}@127.0.0.1:${server.port}`;
  redis = new Redis(REDIS_URL);
}, 180_000);

afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

beforeEach(async () => {
  await redis.flushall();
});

/** The first request that a program suggests. */
function requestOf({ output }: Started): () => Promise<Response> {
  const [request] = curlsOf(output());
  if (request === undefined) throw new Error(`No curl line in:\n${output()}`);
  return request;
}

/** How many of so many requests to each, all sent at once, are not refused. */
async function admittedBy(programs: readonly Started[], times: number): Promise<number> {
  const requests = programs.map(requestOf);
  const answers = await Promise.all(
    requests.flatMap((request) => Array.from({ length: times }, request)),
  );
  return answers.filter(({ status }) => status !== 429).length;
}

async function connections(): Promise<number> {
  const list = String(await redis.client('LIST'));
  return list.trim().split('\n').length;
}

describe('two processes of one example with one REDIS_URL', () => {
  it.each([
    ['fastify-api.mjs', 10],
    ['express-login.mjs', 5],
    ['notifications.mjs', 5],
  ])('%s share a budget, which outlives them', async (file, most) => {
    const startOne = (): Promise<Started> => start(file, 'Ctrl-C stops', { REDIS_URL });
    const both = await Promise.all([startOne(), startOne()]);
    for (const { output } of both) {
      expect(output()).toContain(`Its budgets are in Redis at 127.0.0.1:${server.port}, shared`);
      expect(output()).not.toContain(PASSWORD);
    }
    expect(await admittedBy(both, 12), both.map(({ output }) => output()).join()).toBe(most);
    const keys = await redis.keys('*');
    expect(keys.filter((key) => !key.startsWith(`tollgate:${file.replace('.mjs', '')}:`))).toEqual(
      [],
    );
    expect(await Promise.all(both.map(({ interrupt }) => interrupt()))).toEqual([0, 0]);
    // Only this test's own is left.
    await expect.poll(connections).toBe(1);

    const third = await startOne();
    expect((await requestOf(third)()).status).toBe(429);
    expect(await third.interrupt()).toBe(0);
  });
});

describe('the demo with REDIS_URL', () => {
  it('says so, shows the same burst, and ends', async () => {
    const { output, interrupt } = await start('demo.mjs', 'Ctrl-C stops', { REDIS_URL });
    const text = output();
    expect(text).toContain(`Two servers with their budgets in Redis at 127.0.0.1:${server.port}`);
    expect(text).not.toContain(PASSWORD);
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
    const rows = [...text.matchAll(/^ {2}(?:Fastify|Express) .*?(\d+) +(\d+) +(\d+) +(\d+)$/gm)];
    expect(rows).toHaveLength(4);
    for (const [, ...numbers] of rows) {
      const [sent, admitted = 0, refused = 0] = numbers.map(Number);
      expect(admitted + refused).toBe(sent);
      expect(admitted).toBeGreaterThan(0);
      expect(refused).toBeGreaterThan(0);
    }
    expect(await redis.dbsize()).toBeGreaterThan(4);
    expect(await interrupt()).toBe(0);
    await expect.poll(connections).toBe(1);
  });

  it('finds what another one spent', async () => {
    const first = await start('demo.mjs', 'Ctrl-C stops', { REDIS_URL });
    expect(await first.interrupt()).toBe(0);
    const { output, interrupt } = await start('demo.mjs', 'Ctrl-C stops', { REDIS_URL });
    // Five wrong passwords in a quarter of an hour, whichever process they come to.
    expect(output()).toMatch(/^ {2}Express {2}POST \/login, wrong password +10 +0 +10 +\d+$/m);
    expect(await interrupt()).toBe(0);
  });
});

it.each(['localhost', `http://:${PASSWORD}@localhost`])(
  'a REDIS_URL that is none is told without what may be a password: %s',
  async (url) => {
    const { output, ended } = await start('demo.mjs', 'Ctrl-C stops', { REDIS_URL: url });
    expect(await ended).toBe(1);
    expect(output()).toBe('REDIS_URL: expected an address such as redis://127.0.0.1:6379\n');
  },
);
