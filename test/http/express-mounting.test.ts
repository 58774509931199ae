import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { everyone, fixedWindow, type Policy, route } from '@tollgate/core';
import { rateLimit } from '@tollgate/express';
import express5 from 'express';
import express4 from 'express4';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { Log, silent } from './log.ts';

function per(limit: number): Policy {
  return fixedWindow({ limit, window: '60s' });
}

async function listen(app: RequestListener): Promise<string> {
  const http = createServer(app).listen(0, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(() => {
    http.close();
    http.closeAllConnections();
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

describe.each([
  { name: 'Express 5', express: express5 },
  // What these tests use of Express is the same in 4; their types do not know of one another.
  { name: 'Express 4', express: express4 as unknown as typeof express5 },
])('$name', ({ express }) => {
  describe('a gate that is mounted twice', () => {
    it('charges a request once', async () => {
      const app = express();
      const gate = rateLimit({ store: new Clock().store, policy: per(10), logger: silent });
      const router = express.Router();
      app.use(gate);
      router.use(gate);
      router.get('/', gate, (_request, response) => void response.send('fine'));
      app.use('/router', router);
      app.get('/', (_request, response) => void response.send('fine'));
      const url = await listen(app);
      const left: unknown[] = [];
      for (const path of ['/', '/router', '/', '/router']) {
        left.push((await ask(`${url}${path}`)).headers.get('ratelimit-remaining'));
      }
      expect(left).toEqual(['9', '8', '7', '6']);
    });

    it('charges what its dearest mount asks', async () => {
      const app = express();
      const gate = rateLimit({ store: new Clock().store, policy: per(10), logger: silent });
      app.use(gate);
      app.get(
        '/',
        gate.with({ cost: 3 }),
        gate.with({ cost: 2 }),
        gate.with({ cost: 5 }),
        (_request, response) => void response.send('fine'),
      );
      const url = await listen(app);
      expect((await ask(url)).headers.get('ratelimit-remaining')).toBe('5');
      expect((await ask(url)).headers.get('ratelimit-remaining')).toBe('0');
      expect((await ask(url)).status).toBe(429);
    });

    it('asks its key as often as it is met, and decides once', async () => {
      const app = express();
      let decisions = 0;
      const gate = rateLimit({
        store: new Clock().store,
        policy: per(10),
        logger: silent,
        onDecision: () => void decisions++,
      });
      app.use(gate, gate, gate);
      const url = await listen(app);
      await ask(url);
      expect(decisions).toBe(1);
    });
  });

  it('does not make keys of mount paths', async () => {
    const app = express();
    const gate = rateLimit({ store: new Clock().store, policy: per(2), logger: silent });
    app.use('/v1', gate);
    app.use('/v2', gate);
    const url = await listen(app);
    expect(await inTurn(`${url}/v1/a`, 2)).toEqual([404, 404]);
    expect(await inTurn(`${url}/v2/b`, 1)).toEqual([429]);
    expect(await inTurn(`${url}/v3`, 3)).toEqual([404, 404, 404]);
  });

  it('limits a router, and nothing beside it', async () => {
    const app = express();
    const log = new Log();
    const { store } = new Clock();
    const router = express.Router();
    router.use(rateLimit({ store, logger: log, limits: [{ name: 'router', policy: per(1) }] }));
    router.get('/', (_request, response) => void response.send('fine'));
    app.use('/limited', router);
    app.get('/free', (_request, response) => void response.send('fine'));
    const url = await listen(app);
    expect(await inTurn(`${url}/limited`, 2)).toEqual([200, 429]);
    expect(await inTurn(`${url}/free`, 2)).toEqual([200, 200]);
    expect(log.codes).toEqual([]);
  });

  it('knows the route behind it', async () => {
    const app = express();
    const keys: string[] = [];
    const gate = rateLimit({
      store: new Clock().store,
      logger: silent,
      limits: [{ name: 'route', policy: per(5), by: route() }],
      onDecision: ({ binding }) => void keys.push(binding?.key ?? ''),
    });
    const router = express.Router();
    router.get('/users/:id', gate, (_request, response) => void response.send('fine'));
    app.use('/api', router);
    const url = await listen(app);
    await ask(`${url}/api/users/1`);
    await ask(`${url}/API/users/2`, { method: 'HEAD' });
    expect(keys).toEqual(['GET /api/users/:id', 'GET /api/users/:id']);
  });

  it('limits a mounted application together with the one around it', async () => {
    const app = express();
    const inner = express();
    const { store } = new Clock();
    const by = everyone();
    app.use(rateLimit({ store, logger: silent, limits: [{ name: 'outer', policy: per(5), by }] }));
    inner.use(
      rateLimit({ store, logger: silent, limits: [{ name: 'inner', policy: per(2), by }] }),
    );
    inner.get(
      '/',
      (request, response) =>
        void response.json(request.rateLimit?.verdicts.map(({ name }) => name)),
    );
    app.use('/v1', inner);
    const url = await listen(app);
    const reply = await ask(`${url}/v1`);
    expect(JSON.parse(reply.text)).toEqual(['outer', 'inner']);
    expect(reply.headers.get('ratelimit')).toBe('"outer";r=4;t=60, "inner";r=1;t=60');
    expect(await inTurn(`${url}/v1`, 3)).toEqual([200, 429, 429]);
    // What the inner one refused was given back to the outer one.
    expect(await inTurn(url, 4)).toEqual([404, 404, 404, 429]);
  });

  it('goes by the trust of the application that a request is in', async () => {
    const app = express();
    const inner = express();
    inner.set('trust proxy', 'loopback');
    const keys: string[] = [];
    inner.use(
      rateLimit({
        store: new Clock().store,
        logger: silent,
        policy: per(5),
        onDecision: ({ binding }) => void keys.push(binding?.key ?? ''),
      }),
    );
    app.use('/v1', inner);
    const url = await listen(app);
    await ask(`${url}/v1`, { headers: { 'x-forwarded-for': '203.0.113.7' } });
    expect(keys).toEqual(['203.0.113.7']);
  });
});
