import { fixedWindow, tokenBucket } from '@tollgate/core';
import { describe, expect, it } from 'vitest';
import type { AppGate } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { places } from './stores.ts';

const ban = { after: 3, within: '1m', for: '10s' } as const;
/** Whole again after a second, so that what lasts longer is a ban. */
const policy = tokenBucket({ capacity: 1, rate: 1, per: '1s' });
const key = { login: '127.0.0.1' };

describe.each(places())('in $where', ({ storeBy }) => {
  describe.each(FRAMEWORKS)('$name', ({ serve }) => {
    async function serving(more: AppGate['limits'] = [], options: AppGate = {}) {
      const clock = new Clock();
      const reasons: string[] = [];
      const server = await serve({
        gates: [
          {
            store: storeBy(clock),
            limits: [{ name: 'login', policy, ban }, ...more],
            onReject: (_, { reason }) => reasons.push(reason),
            ...options,
          },
        ],
      });
      return { ...server, clock, reasons };
    }

    it('bans whoever is refused again and again, longer each time, and tells the true wait', async () => {
      const { url, clock, reasons } = await serving();
      /** Is refused until it is banned, and then waits as long as it is told. */
      const provoke = async (): Promise<string | null> => {
        expect(await inTurn(url, 3)).toEqual([200, 429, 429]);
        const banned = await ask(url);
        expect(banned.status).toBe(429);
        expect(JSON.parse(banned.text)).toHaveProperty('violated-policies', ['login']);
        const wait = banned.headers.get('retry-after');
        clock.pass(Number(wait) * 1_000 - 0.001);
        expect((await ask(url)).headers.get('retry-after')).toBe('1');
        clock.pass(0.001);
        return wait;
      };
      expect([await provoke(), await provoke(), await provoke()]).toEqual(['10', '20', '40']);
      // Twice as long as the last without a refusal forgets two of three.
      clock.pass(80_000);
      expect(await provoke()).toBe('20');
      expect(new Set(reasons)).toEqual(new Set(['limited', 'banned']));
    });

    it('counts no refusal while banned, nor what only a shadow or another limit refuses', async () => {
      const none = fixedWindow({ limit: 0, window: '1h' });
      const { url, clock, gate, reasons } = await serving([
        { name: 'planned', policy: none, mode: 'shadow', ban },
        { name: 'closed', policy: none, ban: { ...ban, after: 100 }, skip: () => !isClosed },
      ]);
      let isClosed = true;
      expect(await inTurn(url, 9)).toEqual(Array(9).fill(429));
      expect(new Set(reasons)).toEqual(new Set(['limited']));
      isClosed = false;
      expect(await inTurn(url, 4)).toEqual([200, 429, 429, 429]);
      expect(await inTurn(url, 9)).toEqual(Array(9).fill(429));
      const { verdicts } = await gate.limiter.peek({ ...key, planned: key.login });
      expect(verdicts.map(({ reason }) => reason)).toEqual(['banned', 'limited']);
      clock.pass(10_000);
      expect(await inTurn(url, 4)).toEqual([200, 429, 429, 429]);
      // The second ban and no later one, whatever was refused meanwhile.
      expect((await ask(url)).headers.get('retry-after')).toBe('20');
    });

    it('charges other limits nothing for whom it bans', async () => {
      const all = { name: 'all', policy: fixedWindow({ limit: 100, window: '1h' }) };
      const { url, gate } = await serving([all]);
      await gate.limiter.ban(key, 60_000);
      const refusal = await ask(url);
      expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
      expect((await gate.limiter.peek({ all: key.login })).remaining).toBe(100);
      await gate.limiter.unban(key);
      expect((await ask(url)).status).toBe(200);
      expect((await gate.limiter.peek({ all: key.login })).remaining).toBe(99);
    });

    it('bans for wrong answers, of those that count, as soon as they are too many', async () => {
      const failures = {
        name: 'failures',
        policy: fixedWindow({ limit: 2, window: '1s' }),
        countOnly: 'failures',
        ban: { after: 2, within: '1m', for: '10s' },
      } as const;
      const clock = new Clock();
      let status = 401;
      const { url } = await serve({
        gates: [{ store: storeBy(clock), limits: [failures] }],
        routes: [{ path: '/', handler: () => ({ status }) }],
      });
      expect(await inTurn(url, 4)).toEqual([401, 401, 429, 429]);
      status = 200;
      clock.pass(9_999.999);
      expect((await ask(url)).status).toBe(429);
      clock.pass(0.001);
      expect((await ask(url)).status).toBe(200);
    });
  });
});
