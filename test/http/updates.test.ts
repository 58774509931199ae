import { fixedWindow, type PolicyInput, slidingLog, tokenBucket } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { header } from './app.ts';
import { ask, inTurn, tally } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { places } from './stores.ts';

const MAKERS: readonly [string, (units: number) => PolicyInput][] = [
  ['a token bucket', (units) => tokenBucket({ capacity: units, rate: units, per: '1h' })],
  ['a fixed window', (units) => fixedWindow({ limit: units, window: '1h' })],
  ['a log', (units) => slidingLog({ limit: units, window: '1h' })],
];

describe.each(places())('in $where', ({ storeBy }) => {
  describe.each(FRAMEWORKS)('$name', ({ serve }) => {
    test.each(MAKERS)(
      'a raised limit of %s frees who was blocked, by the difference',
      async (_, make) => {
        const { url, gate } = await serve({
          gates: [{ store: storeBy(new Clock()), limits: [{ name: 'plan', policy: make(10) }] }],
        });
        expect(tally(await inTurn(url, 15))).toEqual({ 200: 10, 429: 5 });
        gate.limiter.update('plan', make(20));
        expect(tally(await inTurn(url, 15))).toEqual({ 200: 10, 429: 5 });
        expect((await ask(url)).headers.get('ratelimit-limit')).toBe('20');
      },
    );

    test.each(MAKERS)(
      'a lowered limit of %s counts what was used, with a true wait',
      async (_, make) => {
        const clock = new Clock();
        const { url, gate } = await serve({
          gates: [{ store: storeBy(clock), limits: [{ name: 'plan', policy: make(10) }] }],
        });
        for (let hits = 0; hits < 8; hits++) {
          expect(await inTurn(url, 1)).toEqual([200]);
          clock.pass(1_000);
        }
        gate.limiter.update('plan', make(5));
        const refusal = await ask(url);
        expect([refusal.status, refusal.headers.get('ratelimit-remaining')]).toEqual([429, '0']);
        const { retryAfterMs } = await gate.limiter.peek({ plan: '127.0.0.1' });
        expect(Number(refusal.headers.get('retry-after'))).toBe(Math.ceil(retryAfterMs / 1_000));
        clock.pass(retryAfterMs - 0.001);
        expect((await ask(url)).status).toBe(429);
        clock.pass(0.001);
        expect((await ask(url)).status).toBe(200);
      },
    );

    it('a caller who changes its plan keeps what it used', async () => {
      const plan = header('x-plan');
      const { url } = await serve({
        gates: [
          {
            store: storeBy(new Clock()),
            limits: [
              {
                name: 'plan',
                policy: (request) =>
                  fixedWindow({ limit: plan(request) === 'large' ? 5 : 2, window: '1h' }),
              },
            ],
          },
        ],
      });
      const on = (name: string): RequestInit => ({ headers: { 'x-plan': name } });
      expect(await inTurn(url, 3, on('small'))).toEqual([200, 200, 429]);
      expect(await inTurn(url, 4, on('large'))).toEqual([200, 200, 200, 429]);
      expect(await inTurn(url, 1, on('small'))).toEqual([429]);
    });

    it('a limit of 0 closes, and a new one opens again', async () => {
      const policy = fixedWindow({ limit: 10, window: '1h' });
      const { url, gate } = await serve({
        gates: [{ store: storeBy(new Clock()), limits: [{ name: 'plan', policy }] }],
      });
      expect(await inTurn(url, 2)).toEqual([200, 200]);
      gate.limiter.update('plan', fixedWindow({ limit: 0, window: '1h' }));
      const closed = await ask(url);
      expect([closed.status, closed.headers.get('retry-after')]).toEqual([429, null]);
      gate.limiter.update('plan', policy);
      expect((await ask(url)).headers.get('ratelimit-remaining')).toBe('7');
    });
  });
});
