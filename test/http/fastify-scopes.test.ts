import { fixedWindow } from '@tollgate/core';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { silent } from './log.ts';

function make(options: FastifyServerOptions = {}): FastifyInstance {
  const app = fastify({ forceCloseConnections: true, ...options });
  onTestFinished(() => app.close());
  return app;
}

/** Limits of one request a minute. */
function gate(limit = 1) {
  return {
    store: new Clock().store,
    policy: fixedWindow({ limit, window: '60s' }),
    logger: silent,
  };
}

describe('routes declared before the plugin is registered', () => {
  it('are limited in the same context', async () => {
    const app = make();
    app.get('/', () => 'early');
    await app.register(tollgate, gate());
    app.get('/late', () => 'late');
    const url = await app.listen();
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect(await inTurn(`${url}/late`, 1)).toEqual([429]);
  });

  it('are limited when nobody waits for the plugin', async () => {
    const app = make();
    app.get('/', () => 'early');
    void app.register(tollgate, gate());
    app.get('/late', () => 'late');
    const url = await app.listen();
    expect([...(await inTurn(url, 1)), ...(await inTurn(`${url}/late`, 1))]).toEqual([200, 429]);
  });

  it('are limited in child contexts that were registered earlier', async () => {
    const app = make();
    await app.register(async (child) => {
      child.get('/child', () => 'early');
      await child.register(async (grandchild) => {
        grandchild.get('/grandchild', () => 'early');
      });
    });
    await app.register(tollgate, gate(2));
    const url = await app.listen();
    expect(await inTurn(`${url}/child`, 1)).toEqual([200]);
    expect(await inTurn(`${url}/grandchild`, 2)).toEqual([200, 429]);
  });

  it('are limited in child contexts that were registered earlier, when nobody waits', async () => {
    const app = make();
    void app.register(async (child) => {
      child.get('/child', () => 'early');
    });
    void app.register(tollgate, gate());
    const url = await app.listen();
    expect(await inTurn(`${url}/child`, 2)).toEqual([200, 429]);
  });

  it('keep what their route says', async () => {
    const app = make();
    app.get('/health', { config: { rateLimit: false } }, () => 'fine');
    app.get('/search', { config: { rateLimit: { cost: 3 } } }, () => 'found');
    await app.register(tollgate, gate(4));
    const url = await app.listen();
    expect(await inTurn(`${url}/health`, 3)).toEqual([200, 200, 200]);
    expect(await inTurn(`${url}/search`, 2)).toEqual([200, 429]);
  });

  it('answer with an error where their route cannot work, since nothing shows it earlier', async () => {
    const app = make();
    let handled = 0;
    app.get('/', { config: { rateLimit: { cost: -1 } } }, () => ++handled);
    await app.register(tollgate, gate());
    const reply = await ask(await app.listen());
    expect([reply.status, handled]).toEqual([500, 0]);
    expect(JSON.parse(reply.text)).toMatchObject({ code: 'TOLLGATE_CONFIG' });
  });
});

describe('encapsulation', () => {
  it('limits a child context and nothing beside it', async () => {
    const app = make();
    app.get('/a', () => 'a');
    await app.register(async (child) => {
      await child.register(tollgate, gate());
      child.get('/b', () => 'b');
      child.get('/c', () => 'c');
    });
    await app.register(async (child) => {
      await child.register(tollgate, gate(3));
      child.get('/e', () => 'e');
    });
    app.get('/d', () => 'd');
    const url = await app.listen();
    expect(await inTurn(`${url}/a`, 3)).toEqual([200, 200, 200]);
    expect(await inTurn(`${url}/d`, 3)).toEqual([200, 200, 200]);
    expect((await ask(`${url}/a`)).headers.get('ratelimit')).toBeNull();
    expect((await inTurn(`${url}/b`, 1)).concat(await inTurn(`${url}/c`, 1))).toEqual([200, 429]);
    expect(await inTurn(`${url}/e`, 4)).toEqual([200, 200, 200, 429]);
  });

  it('lets a child context add a gate of its own, whose routes speak to it', async () => {
    const app = make();
    await app.register(tollgate, gate(10));
    app.get('/plain', { config: { rateLimit: { cost: 2 } } }, () => 'plain');
    await app.register(async (child) => {
      const limits = [{ name: 'inner', policy: fixedWindow({ limit: 4, window: '60s' }) }];
      await child.register(tollgate, { store: new Clock().store, logger: silent, limits });
      child.get('/inner', { config: { rateLimit: { cost: 3 } } }, (request) =>
        request.rateLimit?.verdicts.map(({ name, cost }) => [name, cost]),
      );
      expect(child.tollgate).not.toBe(app.tollgate);
    });
    const url = await app.listen();
    expect((await ask(`${url}/plain`)).headers.get('ratelimit')).toBe('"default";r=8;t=60');
    const reply = await ask(`${url}/inner`);
    expect(reply.headers.get('ratelimit')).toBe('"default";r=7;t=60, "inner";r=1;t=60');
    expect(JSON.parse(reply.text)).toEqual([
      ['default', 1],
      ['inner', 3],
    ]);
    expect((await ask(`${url}/inner`)).status).toBe(429);
    expect((await app.tollgate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(7);
  });

  it('takes two gates in one context', async () => {
    const app = make();
    await app.register(tollgate, gate(5));
    const second = { name: 'second', policy: fixedWindow({ limit: 1, window: '60s' }) };
    await app.register(tollgate, { store: new Clock().store, logger: silent, limits: [second] });
    app.get('/', () => 'fine');
    const url = await app.listen();
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect((await app.tollgate.limiter.peek({ default: '127.0.0.1' })).remaining).toBe(4);
  });
});

describe('a prefixed slash', () => {
  test.each([true, false])(
    'counts once in both spellings, with ignoreTrailingSlash %s',
    async (ignoreTrailingSlash) => {
      let asked = 0;
      const by = (): string => {
        asked++;
        return 'ada';
      };
      const app = make({ routerOptions: { ignoreTrailingSlash } });
      const user = { name: 'user', by, policy: fixedWindow({ limit: 10, window: '60s' }) };
      await app.register(tollgate, { store: new Clock().store, logger: silent, limits: [user] });
      await app.register(
        async (child) => {
          child.get('/', { config: { rateLimit: { cost: 2 } } }, () => 'resource');
        },
        { prefix: '/resource' },
      );
      const url = await app.listen();
      const left: unknown[] = [];
      for (const path of ['/resource', '/resource/', '/resource']) {
        left.push((await ask(`${url}${path}`)).headers.get('ratelimit-remaining'));
      }
      expect(left).toEqual(['8', '6', '4']);
      expect(asked).toBe(3);
    },
  );
});
