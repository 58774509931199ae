import { concurrency, type Decision, fixedWindow, TollgateRefusal } from '@tollgate/core';
import request from 'supertest';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, AppRequest } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FRAMEWORKS } from './servers.ts';
import { Turnstile } from './turnstile.ts';

const REGISTRY = 'https://iana.org/assignments/http-problem-types#';

/** A gate that admits one request a minute. */
function once(gate: AppGate = {}): AppGate {
  return { store: new Clock().store, policy: fixedWindow({ limit: 1, window: '60s' }), ...gate };
}

/** Of two slots one is for those that matter most. */
const reserving = { name: 'slots', policy: concurrency({ limit: 2, reserved: { critical: 0.5 } }) };

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('answers with a problem that programs can read', async () => {
    const { url } = await serve({ gates: [once()] });
    await request(url).get('/').expect(200);
    const { body } = await request(url)
      .get('/')
      .expect(429)
      .expect('content-type', 'application/problem+json')
      .expect('retry-after', '60')
      .expect('cache-control', 'no-store')
      .expect('ratelimit', '"default";r=0;t=60');
    expect(body).toEqual({
      type: `${REGISTRY}quota-exceeded`,
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      'violated-policies': ['default'],
    });
  });

  it('has no body for HEAD', async () => {
    const { url } = await serve({ gates: [once()] });
    await request(url).head('/').expect(200);
    const refusal = await request(url).head('/').expect(429).expect('retry-after', '60');
    expect(refusal.text ?? '').toBe('');
  });

  it('does not run the handler, and reaches no error handling', async () => {
    let handled = 0;
    const { url, errors } = await serve({
      gates: [once()],
      routes: [{ path: '/', handler: () => ({ body: `${++handled}` }) }],
    });
    expect(await inTurn(url, 3)).toEqual([200, 429, 429]);
    expect([handled, errors]).toEqual([1, []]);
  });

  it('names all limits that refuse, and none that does not', async () => {
    const policy = fixedWindow({ limit: 1, window: '60s' });
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [
            { name: 'a', policy },
            { name: 'b', policy: fixedWindow({ limit: 5, window: '60s' }) },
            { name: 'c', policy },
          ],
        },
      ],
    });
    await ask(url);
    const refusal = JSON.parse((await ask(url)).text) as Record<string, unknown>;
    expect(refusal['violated-policies']).toEqual(['a', 'c']);
  });

  it('answers 503 when the server is what is overloaded', async () => {
    const turnstile = new Turnstile();
    const { url } = await serve({
      gates: [{ store: new Clock().store, limits: [reserving] }],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    const held = ask(url);
    await expect.poll(() => turnstile.holding).toBe(1);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([503, '1']);
    expect(JSON.parse(refusal.text)).toMatchObject({
      type: `${REGISTRY}temporary-reduced-capacity`,
      status: 503,
      'violated-policies': ['slots'],
    });
    turnstile.release(1);
    expect((await held).status).toBe(200);
  });

  describe('a body of the application', () => {
    const problem = (_request: AppRequest, decision: Decision): object => ({
      error: 'slow down',
      seconds: decision.retryAfterMs / 1_000,
    });

    test.each<[string, AppGate['problem'], type: RegExp, text: string]>([
      ['an object', problem, /^application\/problem\+json$/, '{"error":"slow down","seconds":60}'],
      ['a text', () => 'slow down', /^text\/plain; ?charset=utf-8$/, 'slow down'],
      [
        'known later',
        async () => ({ error: 'slow down' }),
        /^application\/problem\+json$/,
        '{"error":"slow down"}',
      ],
    ])('%s: takes the place of ours, with our status and headers', async (_, shape, type, text) => {
      const { url, errors } = await serve({ gates: [once({ ...(shape && { problem: shape }) })] });
      await ask(url);
      const refusal = await ask(url);
      expect(refusal.status).toBe(429);
      expect(refusal.text).toBe(text);
      expect(refusal.headers.get('content-type')).toMatch(type);
      expect(refusal.headers.get('retry-after')).toBe('60');
      expect(errors).toEqual([]);
    });

    test.each<[string, () => unknown]>([
      [
        'throws',
        () => {
          throw new Error('broken');
        },
      ],
      [
        'throws nothing',
        () => {
          throw undefined;
        },
      ],
      ['rejects', () => Promise.reject(new Error('broken'))],
      ['is none', () => undefined],
      ['cannot be written', () => ({ size: 1n })],
    ])('that %s: lets nothing through, and is answered once', async (_, shape) => {
      let handled = 0;
      const { url, errors } = await serve({
        gates: [once({ problem: shape as NonNullable<AppGate['problem']> })],
        routes: [{ path: '/', handler: () => ({ body: `${++handled}` }) }],
      });
      expect(await inTurn(url, 2)).toEqual([200, 500]);
      expect(handled).toBe(1);
      expect(errors).toHaveLength(1);
      expect(errors[0]).toMatchObject({ code: 'TOLLGATE_FUNCTION', statusCode: 500 });
    });
  });

  describe('onReject', () => {
    it('is told of every refusal, with the request and the decision', async () => {
      const told: unknown[] = [];
      const onReject = ({ method, url }: AppRequest, { reason, binding }: Decision): void =>
        void told.push([method, url, reason, binding?.name]);
      const { url } = await serve({ gates: [once({ onReject })] });
      expect(await inTurn(`${url}/?a=1`, 3)).toEqual([200, 429, 429]);
      expect(told).toEqual(Array(2).fill(['GET', '/?a=1', 'limited', 'default']));
    });

    test.each<[string, () => unknown]>([
      [
        'throws',
        () => {
          throw new Error('broken');
        },
      ],
      ['rejects', () => Promise.reject(new Error('broken'))],
      ['never ends', () => new Promise(() => undefined)],
    ])('that %s changes no answer, and is logged', async (how, notify) => {
      const log = new Log();
      const onReject = notify as () => void;
      const { url, errors } = await serve({ gates: [once({ onReject, logger: log })] });
      expect(await inTurn(url, 2)).toEqual([200, 429]);
      expect(errors).toEqual([]);
      const failures = log.lines.filter(({ level }) => level === 'error');
      expect(failures).toHaveLength(how === 'never ends' ? 0 : 1);
    });
  });

  describe('an error handler of the application', () => {
    it('sees a refusal as an error, with its headers set', async () => {
      const seen: unknown[] = [];
      const { url, errors } = await serve({
        gates: [once()],
        onError: async (error, { request: { rateLimit } }) => {
          seen.push(error);
          expect(rateLimit?.allowed).toBe(false);
          const { statusCode = 500 } = error as { statusCode?: number };
          return { status: statusCode, body: 'mine' };
        },
      });
      await ask(url);
      const refusal = await ask(url);
      expect([refusal.status, refusal.text]).toEqual([429, 'mine']);
      expect(refusal.headers.get('retry-after')).toBe('60');
      expect(refusal.headers.get('ratelimit')).toBe('"default";r=0;t=60');
      expect(refusal.headers.get('cache-control')).toBe('no-store');
      expect(seen).toHaveLength(1);
      expect(errors).toEqual(seen);
      expect(seen[0]).toBeInstanceOf(TollgateRefusal);
      expect(seen[0]).toBeInstanceOf(Error);
      expect(seen[0]).toMatchObject({ statusCode: 429, status: 429, code: 'TOLLGATE_REFUSED' });
      expect((seen[0] as TollgateRefusal).decision.reason).toBe('limited');
    });

    it('sees overload as 503', async () => {
      const slots = {
        name: 'slots',
        policy: concurrency({ limit: 1, reserved: { critical: 0.5 } }),
      };
      const { url } = await serve({
        gates: [{ store: new Clock().store, limits: [slots] }],
        onError: (error) => ({ status: (error as { statusCode: number }).statusCode }),
      });
      expect((await ask(url)).status).toBe(503);
    });

    it('sees the errors of handlers too, once each', async () => {
      const { url, errors } = await serve({
        gates: [once()],
        routes: [
          {
            path: '/',
            handler: () => {
              throw new Error('handler');
            },
          },
        ],
        onError: (error) => ({ status: error instanceof TollgateRefusal ? 429 : 500 }),
      });
      expect(await inTurn(url, 2)).toEqual([500, 429]);
      expect(errors.map((error) => (error as Error).message)).toEqual([
        'handler',
        'The request was refused: limited.',
      ]);
    });
  });
});
