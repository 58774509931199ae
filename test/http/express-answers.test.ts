import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Decision, fixedWindow, type Limiter, TollgateRefusal } from '@tollgate/core';
import { type ExpressGate, type ExpressOptions, rateLimit } from '@tollgate/express';
import express5, { type ErrorRequestHandler, type Express, type Request } from 'express';
import express4 from 'express4';
import { describe, expect, expectTypeOf, it, onTestFinished, test } from 'vitest';
import { ask, inTurn, speak } from './clients.ts';
import { Clock } from './clock.ts';
import { silent } from './log.ts';

const GET = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

async function listen(app: Express): Promise<{ url: string; port: number }> {
  const http = createServer(app).listen(0, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(() => {
    http.close();
    http.closeAllConnections();
  });
  const { port } = http.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port };
}

function once429(options: Partial<ExpressOptions> = {}): ExpressGate {
  return rateLimit({
    store: new Clock().store,
    policy: fixedWindow({ limit: 1, window: '60s' }),
    logger: silent,
    ...options,
  });
}

describe.each([
  { name: 'Express 5', express: express5 },
  // What these tests use of Express is the same in 4; their types do not know of one another.
  { name: 'Express 4', express: express4 as unknown as typeof express5 },
])('$name', ({ express }) => {
  /** An app that notes what reaches its handler and its error handler. */
  function noting(gate: ExpressGate, before?: (app: Express) => void) {
    const app = express();
    const notes: string[] = [];
    before?.(app);
    app.use(gate);
    app.get('/', (_request, response) => {
      notes.push('handler');
      if (response.headersSent && !response.writableEnded) response.end('handler');
      else if (!response.headersSent) response.send('handler');
    });
    const onError: ErrorRequestHandler = (error, _request, response, next) => {
      notes.push(error instanceof TollgateRefusal ? 'refusal' : String(error));
      if (response.headersSent) return next(error);
      response.json({ error: 'mine' });
    };
    app.use(onError);
    return { app, notes };
  }

  it('sends refusals itself, unless they are to be handed on', async () => {
    const sent = noting(once429());
    expect(await inTurn((await listen(sent.app)).url, 2)).toEqual([200, 429]);
    expect(sent.notes).toEqual(['handler']);

    const handed = noting(once429({ refusals: 'next' }));
    const { url } = await listen(handed.app);
    await ask(url);
    const refusal = await ask(url);
    // The handler said nothing of the status.
    expect([refusal.status, refusal.text]).toEqual([429, '{"error":"mine"}']);
    expect(refusal.headers.get('retry-after')).toBe('60');
    expect(handed.notes).toEqual(['handler', 'refusal']);
  });

  it('leaves a refusal that nobody handles to Express, with its status and headers', async () => {
    const app = express();
    app.use(once429({ refusals: 'next' }));
    const { url } = await listen(app);
    await ask(url);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
  });

  it('says at the start what refusals may be', () => {
    expect(() => once429({ refusals: 'throw' as 'next' })).toThrow(
      expect.objectContaining({ code: 'TOLLGATE_CONFIG', path: 'refusals' }),
    );
  });

  describe('a response that was begun before', () => {
    test.each<[string, (app: Express) => void]>([
      [
        'and goes on',
        (app) =>
          app.use((_request, response, next) => {
            response.write('begun ');
            next();
          }),
      ],
      [
        'and is over',
        (app) =>
          app.use((_request, response, next) => {
            response.end('begun ');
            next();
          }),
      ],
    ])('%s, is not answered again', async (how, before) => {
      const { app, notes } = noting(once429(), before);
      const { port } = await listen(app);
      const served = await speak(port, GET);
      expect(served).toContain('begun ');
      // What was begun is broken off: nobody else would end it.
      const refused = await speak(port, GET);
      expect(refused.split('HTTP/1.1').length).toBeLessThanOrEqual(2);
      expect(refused).not.toContain('handler');
      if (how === 'and is over') expect(refused).toContain('begun ');
      if (how === 'and goes on') expect(notes).toEqual(['handler']);
    });

    it('and refused to an error handler, is left to it', async () => {
      const { app, notes } = noting(once429({ refusals: 'next' }), (inner) =>
        inner.use((_request, response, next) => {
          response.write('begun ');
          next();
        }),
      );
      const { port } = await listen(app);
      await speak(port, GET);
      const refused = await speak(port, GET);
      expect(refused.split('HTTP/1.1').length).toBeLessThanOrEqual(2);
      expect(notes).toEqual(['handler', 'refusal']);
    });
  });

  it('lets a listener that answers by itself have the last word, and only it', async () => {
    const { app, notes } = noting(
      once429({ onReject: ({ res }: Request) => void res?.status(429).json({ answered: true }) }),
    );
    const { url } = await listen(app);
    await ask(url);
    const refusal = await ask(url);
    expect([refusal.status, refusal.text]).toEqual([429, '{"answered":true}']);
    expect(notes).toEqual(['handler']);
  });

  it('goes on once, whatever the handlers behind it do', async () => {
    const app = express();
    const reached: string[] = [];
    const gate = once429({ policy: fixedWindow({ limit: 9, window: '60s' }) });
    app.use(gate);
    app.get('/throws', () => {
      reached.push('throws');
      throw new Error('broken');
    });
    app.get('/passes', (_request, _response, next) => {
      reached.push('passes');
      next(new Error('passed on'));
    });
    const onError: ErrorRequestHandler = (error: Error, _request, response, _next) => {
      reached.push(error.message);
      response.status(500).end();
    };
    app.use(onError);
    const { url } = await listen(app);
    expect((await inTurn(`${url}/throws`, 1)).concat(await inTurn(`${url}/passes`, 1))).toEqual([
      500, 500,
    ]);
    expect(reached).toEqual(['throws', 'broken', 'passes', 'passed on']);
  });
});

it('has types', () => {
  const gate = once429();
  expectTypeOf(gate.limiter).toEqualTypeOf<Limiter>();
  const app = express5();
  app.use(gate);
  app.get('/', gate.with({ cost: 1 }), (request, response) => {
    expectTypeOf(request.rateLimit).toEqualTypeOf<Decision | undefined>();
    response.end();
  });
  createServer(app).on('upgrade', (request) => void gate.consume(request));
  // @ts-expect-error -- another library's word
  expect(() => once429({ windowMs: 5 })).toThrow('windowMs');
  // @ts-expect-error -- a word that no route knows
  expect(() => gate.with({ cots: 5 })).toThrow('cots');
});
