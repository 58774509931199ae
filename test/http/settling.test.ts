import {
  type Decision,
  fixedWindow,
  type PolicyInput,
  slidingLog,
  tokenBucket,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { type AppRequest, header } from './app.ts';
import { ask, inTurn, tally, together } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { places } from './stores.ts';
import { Turnstile } from './turnstile.ts';

const number = (name: string) => (request: AppRequest) => Number(header(name)(request) ?? 0);

/** A request that reserves an estimate, and is then found to have cost something else. */
function costing(estimate: number, actual: number): RequestInit {
  return { headers: { 'x-estimate': `${estimate}`, 'x-actual': `${actual}` } };
}

const minute = (limit: number): PolicyInput => fixedWindow({ limit, window: '60s' });

describe.each(places())('in $where', ({ storeBy }) => {
  describe.each(FRAMEWORKS)('$name', ({ serve }) => {
    /** An app whose handler settles what the caller says that it cost. */
    async function serving(policy: PolicyInput) {
      const clock = new Clock();
      const { url, gate } = await serve({
        gates: [
          {
            store: storeBy(clock),
            limits: [{ name: 'tokens', policy, cost: number('x-estimate') }],
          },
        ],
        routes: [
          {
            path: '/',
            handler: async ({ request }) => {
              await request.rateLimit?.settle(number('x-actual')(request));
              return {};
            },
          },
        ],
      });
      const remaining = async (): Promise<number> =>
        (await gate.limiter.peek({ tokens: '127.0.0.1' })).remaining;
      return { url, clock, remaining };
    }

    it('gives back what was reserved too much, and no more', async () => {
      const { url, remaining } = await serving(minute(100));
      const left: number[] = [];
      for (const [estimate, actual] of [
        [10, 3],
        [60, 0],
        [1, 1],
        [97, 16],
      ] as const) {
        await ask(url, costing(estimate, actual));
        left.push(await remaining());
      }
      // The last could not be admitted by its estimate.
      expect(left).toEqual([97, 97, 96, 96]);
    });

    it('charges what was reserved too little as debt, which is paid before anything more is admitted', async () => {
      const { url, clock, remaining } = await serving(
        tokenBucket({ capacity: 10, rate: 1, per: '1s' }),
      );
      expect((await ask(url, costing(4, 15))).status).toBe(200);
      expect(await remaining()).toBe(0);
      const refusal = await ask(url, costing(1, 1));
      expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '6']);
      clock.pass(5_999.999);
      expect((await ask(url, costing(1, 1))).status).toBe(429);
      clock.pass(0.001);
      expect((await ask(url, costing(1, 1))).status).toBe(200);
    });

    it('gives back nothing that time gave back already', async () => {
      const clock = new Clock();
      const turnstile = new Turnstile();
      const decisions: Decision[] = [];
      const { url, gate } = await serve({
        gates: [
          {
            store: storeBy(clock),
            limits: [
              {
                name: 'tokens',
                policy: tokenBucket({ capacity: 10, rate: 1, per: '1s' }),
                cost: 10,
              },
            ],
          },
        ],
        routes: [
          {
            path: '/',
            handler: (call) => {
              decisions.push(call.request.rateLimit as Decision);
              return turnstile.handler(call);
            },
          },
        ],
      });
      const reply = ask(url);
      await expect.poll(() => turnstile.holding).toBe(1);
      clock.pass(7_000);
      await decisions[0]?.settle(0);
      await decisions[0]?.settle(0);
      expect((await gate.limiter.peek({ tokens: '127.0.0.1' })).remaining).toBe(10);
      turnstile.release(1);
      expect((await reply).status).toBe(200);
    });

    it('lets no more through at once than were reserved, whatever they turn out to cost', async () => {
      const turnstile = new Turnstile();
      const { url, gate } = await serve({
        gates: [
          {
            store: storeBy(new Clock()),
            limits: [{ name: 'tokens', policy: minute(100), cost: number('x-estimate') }],
          },
        ],
        routes: [
          {
            path: '/',
            handler: async (call) => {
              const answer = await turnstile.handler(call);
              await call.request.rateLimit?.settle(58);
              return answer;
            },
          },
          { path: '/free', handler: () => ({}) },
        ],
      });
      const replies = together(url, 5, costing(60, 58));
      await expect.poll(() => turnstile.holding).toBe(1);
      await expect.poll(() => gate.rejections()['tokens']?.count).toBe(4);
      turnstile.release(1);
      const statuses = (await Promise.all(replies)).map(({ status }) => status);
      expect(tally(statuses)).toEqual({ 200: 1, 429: 4 });
      expect((await gate.limiter.peek({ tokens: '127.0.0.1' })).remaining).toBe(42);
      expect(await inTurn(`${url}/free`, 1, costing(40, 40))).toEqual([200]);
      expect(await inTurn(`${url}/free`, 1, costing(10, 10))).toEqual([429]);
    });

    test.each<[string, unknown]>([
      ['undefined', undefined],
      ['null', null],
      ['an empty usage', {}],
      ['a usage of another shape', { total_tokens: 80 }],
      ['NaN', NaN],
      ['a text', '80'],
      ['less than nothing', -5],
      ['a fraction', 0.5],
      ['without end', Infinity],
    ])('keeps the reservation and says so where the usage is %s', async (_, usage) => {
      const faults: unknown[] = [];
      const { url, gate } = await serve({
        gates: [
          {
            store: storeBy(new Clock()),
            limits: [
              { name: 'tokens', policy: slidingLog({ limit: 200, window: '60s' }), cost: 100 },
            ],
          },
        ],
        routes: [
          {
            path: '/',
            handler: async ({ request }) => {
              const left = async (): Promise<number> =>
                (await gate.limiter.peek({ tokens: '127.0.0.1' })).remaining;
              const before = await left();
              try {
                await request.rateLimit?.settle(usage as number);
              } catch (error) {
                faults.push(error);
              }
              const kept = await left();
              // What was wrong was no settlement, so that the right one counts.
              await request.rateLimit?.settle(80);
              return { body: `${before} ${kept} ${await left()}` };
            },
          },
        ],
      });
      expect((await ask(url)).text).toBe('100 100 120');
      expect(faults).toMatchObject([{ name: 'TollgateArgumentError', code: 'TOLLGATE_ARGUMENT' }]);
    });
  });
});
