import {
  type Decision,
  fixedWindow,
  TollgateClosedError,
  type TollgateConfigError,
} from '@tollgate/core';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { ask } from './clients.ts';
import { Clock } from './clock.ts';
import { Log, silent } from './log.ts';

function make(options: FastifyServerOptions = {}): FastifyInstance {
  const app = fastify({ forceCloseConnections: true, ...options });
  onTestFinished(() => app.close());
  return app;
}

/** Limits of one request a minute. */
function gate() {
  return {
    store: new Clock().store,
    policy: fixedWindow({ limit: 1, window: '60s' }),
    logger: silent,
  };
}

describe('closing', () => {
  it('ends twice within a second, and leaves a gate that says it is closed', async () => {
    const app = make();
    await app.register(tollgate, gate());
    app.get('/', () => 'fine');
    await ask(await app.listen());
    const began = performance.now();
    await app.close();
    await app.close();
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(() => app.tollgate.limiter.consume({ default: 'ada' })).toThrow(TollgateClosedError);
    await app.tollgate.close();
  });

  it('does not wait for those who wait for outcomes', async () => {
    const app = make();
    let asked = 0;
    const failures = {
      name: 'failures',
      policy: fixedWindow({ limit: 1, window: '60s' }),
      countOnly: 'failures',
      by: () => `${Math.min(++asked, 1)}`,
    } as const;
    await app.register(tollgate, {
      store: new Clock().store,
      logger: silent,
      limits: [failures],
      maxWaitMs: 30_000,
    });
    app.get('/', () => new Promise(() => undefined));
    const url = await app.listen();
    const replies = [ask(url), ask(url)].map((reply) => reply.catch(() => undefined));
    await expect.poll(() => asked).toBe(2);
    const began = performance.now();
    await app.close();
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(await Promise.all(replies)).toEqual([undefined, undefined]);
  });
});

describe('mistakes', () => {
  test.each<[string, unknown, string]>([
    ['a text', 'no', 'config.rateLimit'],
    ['null', null, 'config.rateLimit'],
    ['a number', 5, 'config.rateLimit'],
    ['an array', [], 'config.rateLimit'],
    ['an unknown option', { max: 5 }, 'config.rateLimit.max'],
  ])('in a route fail at the start: %s', async (_, rateLimit, path) => {
    const app = make();
    await app.register(tollgate, gate());
    const declare = (): unknown =>
      app.get('/x', { config: { rateLimit: rateLimit as never } }, () => 'x');
    expect(declare).toThrow(
      expect.objectContaining({ code: 'TOLLGATE_CONFIG', path: `/x ${path}` }),
    );
  });

  it('in the options reject the registration, and leave the process alone', async () => {
    const app = make();
    await expect(app.register(tollgate, { max: 5 } as object)).rejects.toMatchObject({
      path: 'max',
    });
    const other = make();
    other.get('/', () => 'fine');
    void other.register(tollgate, { policy: undefined } as object);
    const error = (await other.ready().then(
      () => undefined,
      (reason: unknown) => reason,
    )) as TollgateConfigError;
    expect(error.path).toBe('limits');
  });

  it('are told to the log of the application', async () => {
    const lines: string[] = [];
    const app = make({
      logger: { level: 'warn', stream: { write: (line: string) => lines.push(line) } },
    });
    const { logger: _, ...options } = gate();
    await app.register(tollgate, options);
    app.get('/', () => 'fine');
    await ask(await app.listen(), { headers: { 'x-forwarded-for': '203.0.113.7' } });
    expect(lines.map((line) => (JSON.parse(line) as Record<string, unknown>)['code'])).toEqual([
      'TOLLGATE_UNTRUSTED_PROXY',
    ]);
  });

  it('goes to a logger of its own when it has one', async () => {
    const log = new Log();
    const app = make({ logger: false });
    await app.register(tollgate, { ...gate(), logger: log });
    await ask(await app.listen(), { headers: { 'x-forwarded-for': '203.0.113.7' } });
    expect(log.codes).toEqual(['TOLLGATE_UNTRUSTED_PROXY']);
  });
});

it('takes requests that are injected, and frees their slots', async () => {
  const app = make();
  const seen: (Decision | undefined)[] = [];
  await app.register(tollgate, {
    store: new Clock().store,
    logger: silent,
    limits: [{ name: 'slots', policy: { algorithm: 'concurrency', limit: 1 } }],
  });
  app.get('/', (request) => {
    seen.push(request.rateLimit);
    return 'fine';
  });
  for (let i = 0; i < 3; i++) {
    expect((await app.inject('/')).statusCode).toBe(200);
    await expect
      .poll(async () => (await app.tollgate.limiter.peek({ slots: '127.0.0.1' })).remaining)
      .toBe(1);
  }
  expect(seen).toHaveLength(3);
});
