import { TollgateStoreError } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { describe, expect, it, onTestFinished, test, vi } from 'vitest';
import { Site } from './faults.ts';
import { limiterOn, PATIENT, SOON, storeAt, timed } from './limiters.ts';
import { RedisServer } from './server.ts';

const CLIENTS = [
  ['ioredis', (port: number) => new Redis(port, '127.0.0.1', { lazyConnect: true })],
  ['node-redis', (port: number) => createClient({ socket: { host: '127.0.0.1', port } })],
] as const;

describe.each(CLIENTS)('Redis absent when the application starts, with %s', (_, clientAt) => {
  it('is decided without, and joined as soon as it is there', async () => {
    const warn = vi.spyOn(process, 'emitWarning');
    onTestFinished(() => warn.mockRestore());
    const gone = await RedisServer.start();
    await gone.stop('SIGKILL');
    const store = redisStore(clientAt(gone.port) as Redis);
    const { limiter } = limiterOn(store);
    onTestFinished(() => limiter.close());
    const first = await Promise.all(
      Array.from({ length: 30 }, () => timed(() => limiter.consume({ a: 'k' }))),
    );
    expect(new Set(first.map(({ source }) => source))).toEqual(new Set(['fallback']));
    for (let i = 0; i < 5; i++) await timed(() => limiter.consume({ a: 'k' }));
    expect(store.health().store).not.toBe('up');
    const server = await RedisServer.start([], gone.port);
    onTestFinished(() => server.stop('SIGKILL'));
    await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
    // What was asked before there was a connection is not charged once there is one.
    expect((await limiter.consume({ a: 'k' })).remaining).toBe(99);
    expect(warn).not.toHaveBeenCalled();
  });

  it('has calls wait for the first connection within their deadline', async () => {
    const site = await Site.open();
    const store = redisStore(clientAt(site.proxy.port) as Redis, PATIENT);
    const { limiter, errors } = limiterOn(store);
    onTestFinished(() => limiter.close());
    const decisions = await Promise.all(
      Array.from({ length: 20 }, () => limiter.consume({ a: 'k' })),
    );
    expect(decisions.map(({ remaining }) => remaining).sort((a, b) => b - a)).toEqual(
      Array.from({ length: 20 }, (_each, index) => 99 - index),
    );
    expect(errors).toEqual([]);
  });
});

test('what was asked before there was a connection is not sent once there is one', async () => {
  const site = await Site.open();
  // Redis knows the script, so that nothing but the time that has passed speaks against it.
  const { limiter: other } = limiterOn(storeAt(site.server.port, PATIENT));
  await other.consume({ a: 'other' });
  site.proxy.hold();
  const store = storeAt(site.proxy.port, { breaker: { probeMs: 100 } });
  const { limiter } = limiterOn(store);
  for (let i = 0; i < 6; i++) await timed(() => limiter.consume({ a: 'k' }));
  site.proxy.letGo();
  await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
  expect((await other.peek({ a: 'k' })).remaining).toBe(100);
});

test('a deadline keeps the process alive only while its call is under way', async () => {
  const site = await Site.open();
  const { limiter } = limiterOn(storeAt(site.proxy.port, PATIENT));
  await limiter.consume({ a: 'k' });
  // Those that keep the process alive.
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
  const before = timers();
  const asked = limiter.consume({ a: 'k' });
  expect(timers()).toBe(before + 1);
  await asked;
  expect(timers()).toBe(before);
});

test('SCRIPT FLUSH between and during calls is no fault: each is charged once', async () => {
  const site = await Site.open();
  const { limiter, errors } = limiterOn(storeAt(site.proxy.port, { ...PATIENT, batch: false }));
  let admitted = 0;
  const consume = async (): Promise<void> => {
    if ((await limiter.consume({ a: 'k' })).allowed) admitted++;
  };
  for (let i = 0; i < 50; i++) {
    if (i % 10 === 0) await site.ask('SCRIPT', 'FLUSH');
    await consume();
  }
  await site.ask('SCRIPT', 'FLUSH');
  const all = Array.from({ length: 100 }, consume);
  for (let i = 0; i < 10; i++) void site.ask('SCRIPT', 'FLUSH');
  await Promise.all(all);
  expect([admitted, errors]).toEqual([100, []]);
});

test('a reply that is cut off is charged once, and not sent again', async () => {
  const site = await Site.open();
  const { limiter, errors } = limiterOn(storeAt(site.proxy.port, PATIENT));
  expect((await limiter.consume({ a: 'k' })).remaining).toBe(99);
  site.proxy.cuts = 1;
  const decision = await limiter.consume({ a: 'k' });
  expect([decision.source, errors.length]).toEqual(['fallback', 1]);
  // What it left in Redis is real: it is neither charged again nor given back.
  await decision.settle(0);
  await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
  expect((await limiter.peek({ a: 'k' })).remaining).toBe(98);
});

test('a reply that is late is nobody’s, and what it charged stays charged', async () => {
  const site = await Site.open();
  const { limiter, errors } = limiterOn(storeAt(site.proxy.port));
  await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
  site.server.pause();
  const decision = await timed(() => limiter.consume({ a: 'k' }));
  expect(decision).toMatchObject({ allowed: true, source: 'fallback', remaining: 99 });
  expect(errors[0]).toBeInstanceOf(TollgateStoreError);
  expect(String((errors[0] as Error).cause)).toContain('no answer within 100 ms');
  site.server.resume();
  await decision.settle(0);
  await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
  await expect.poll(async () => (await limiter.peek({ a: 'k' })).remaining, SOON).toBe(99);
});

/** Bytes as Redis sends them. */
function packed(bytes: string): string {
  return `$${bytes.length}\r\n${bytes}\r\n`;
}

test.each([
  ['too little', '*1\r\n:5\r\n'],
  ['a text', '+OK\r\n'],
  ['nothing', '$-1\r\n'],
  ['other things', '*3\r\n:5\r\n$1\r\nx\r\n:0\r\n'],
  ['a number alone', packed('\0'.repeat(8))],
  ['half a number more', packed('\0'.repeat(12))],
  ['fractions', packed(`${'\0'.repeat(6)}\b?`.repeat(9))],
])('an answer of %s is a fault like any other', async (_, reply) => {
  const site = await Site.open();
  const { limiter, errors } = limiterOn(storeAt(site.proxy.port));
  // An answer that is late would be the one that is replaced.
  await expect.poll(async () => (await limiter.peek({ a: 'k' })).source, SOON).toBe('store');
  site.proxy.instead = reply;
  const both = await Promise.all([limiter.consume({ a: 'k' }), limiter.consume({ a: 'k' })]);
  expect(both.map(({ source }) => source)).toEqual(['fallback', 'fallback']);
  expect(errors.length).toBeGreaterThan(0);
  for (const error of errors) expect(error).toBeInstanceOf(TollgateStoreError);
});

/** All that a logger could find in an error. */
function everything(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify(error ?? '');
  return `${error.stack} ${JSON.stringify(Object.entries(error))} ${everything(error.cause)}`;
}

describe('errors that are logged', () => {
  it('hold no password', async () => {
    const site = await Site.open();
    await site.ask('CONFIG', 'SET', 'requirepass', 'right');
    const password = 'hunter2';
    const client = new Redis(site.proxy.port, '127.0.0.1', { lazyConnect: true, password });
    const store = redisStore(client);
    onTestFinished(() => store.close());
    const { limiter, errors } = limiterOn(store);
    for (let i = 0; i < 6; i++) await limiter.consume({ a: 'k' });
    await expect.poll(() => String(limiter.health().lastError), SOON).toContain('WRONGPASS');
    const said = [...errors, limiter.health().lastError].map(everything).join('\n');
    expect(said).not.toContain(password);
  });

  it('hold no key', async () => {
    const site = await Site.open();
    const { limiter, errors } = limiterOn(storeAt(site.proxy.port, PATIENT));
    await site.ask('CONFIG', 'SET', 'maxmemory', '1');
    await limiter.consume({ a: 'tenant-7' });
    const said = [...errors, limiter.health().lastError].map(everything).join('\n');
    expect(said).toContain('OOM');
    expect(said).not.toContain('tenant-7');
  });
});
