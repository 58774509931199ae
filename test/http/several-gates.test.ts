import {
  concurrency,
  createLimiter,
  everyone,
  fixedWindow,
  type MemoryStore,
  type Policy,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { FAILURES } from './misbehaviour.ts';
import { FRAMEWORKS } from './servers.ts';

function per(limit: number): Policy {
  return fixedWindow({ limit, window: '60s' });
}

/** What remains of a limit for this machine, whichever gate charges it. */
function remaining(store: MemoryStore, name: string, policy: Policy): number {
  const limiter = createLimiter({ store, limits: [{ name, policy }] });
  return limiter.peek({ [name]: '127.0.0.1' }).remaining;
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('renders all gates as one', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [
        { store, limits: [{ name: 'coarse', policy: per(100) }] },
        { store: new Clock().store, limits: [{ name: 'fine', policy: per(2) }] },
      ],
    });
    const reply = await ask(url);
    expect(reply.headers.get('ratelimit')).toBe('"coarse";r=99;t=60, "fine";r=1;t=60');
    expect(reply.headers.get('ratelimit-policy')).toBe('"coarse";q=100;w=60, "fine";q=2;w=60');
    expect(reply.headers.get('ratelimit-limit')).toBe('2');
  });

  it('gives back what earlier gates charged when a later one refuses', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [
        { store, limits: [{ name: 'first', policy: per(10) }] },
        { store, limits: [{ name: 'second', policy: per(5) }] },
        { store, limits: [{ name: 'third', policy: per(1) }] },
      ],
    });
    expect(await inTurn(url, 4)).toEqual([200, 429, 429, 429]);
    expect(remaining(store, 'first', per(10))).toBe(9);
    expect(remaining(store, 'second', per(5))).toBe(4);
  });

  test.each(FAILURES)(
    'give back what earlier gates charged when the key of a later one $how',
    async ({ act }) => {
      const { store } = new Clock();
      const broken = { name: 'broken', policy: per(9), by: act as () => string };
      const slots = { name: 'slots', policy: concurrency({ limit: 9 }) };
      const { url, gate, errors } = await serve({
        gates: [
          { store, limits: [{ name: 'first', policy: per(9) }, slots] },
          { store, limits: [{ name: 'second', policy: per(9) }] },
          { store, limits: [broken], functionTimeoutMs: 50 },
        ],
      });
      const reply = await ask(url);
      expect(reply.status).toBe(500);
      const { verdicts } = await gate.limiter.peek({ first: '127.0.0.1', slots: '127.0.0.1' });
      expect(verdicts.map(({ limit, remaining }) => limit - remaining)).toEqual([0, 0]);
      expect(errors).toHaveLength(1);
      // Who hands out the headers is up to the framework, but none tells of a charge that was given back.
      const told = reply.headers.get('ratelimit') ?? '';
      expect(told).not.toContain('r=8');
    },
  );

  it('give back what earlier gates charged when a cost of a route fails', async () => {
    const { store } = new Clock();
    const cost = (): number => {
      throw new Error('broken');
    };
    const { url, gate } = await serve({
      gates: [
        { store, limits: [{ name: 'first', policy: per(9) }] },
        { store, limits: [{ name: 'second', policy: per(9) }] },
      ],
      routes: [{ path: '/', rateLimit: { cost } }],
    });
    expect((await ask(url)).status).toBe(500);
    expect((await gate.limiter.peek({ first: '127.0.0.1' })).remaining).toBe(9);
  });

  it('tells the wait of the gate that refuses', async () => {
    const clock = new Clock();
    const { url } = await serve({
      gates: [
        {
          store: clock.store,
          limits: [{ name: 'hourly', policy: fixedWindow({ limit: 100, window: '1h' }) }],
        },
        { store: clock.store, limits: [{ name: 'minutely', policy: per(1) }] },
      ],
    });
    await ask(url);
    clock.at(18_000);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '42']);
    expect(refusal.headers.get('ratelimit-limit')).toBe('1');
    expect(JSON.parse(refusal.text)).toHaveProperty('violated-policies', ['minutely']);
  });

  it('charges a limit once that several gates share', async () => {
    const { store } = new Clock();
    const shared = { name: 'shared', policy: per(10) };
    const { url } = await serve({
      gates: [
        { store, limits: [shared] },
        { store, limits: [{ ...shared }] },
      ],
    });
    for (const left of ['9', '8', '7']) {
      expect((await ask(url)).headers.get('ratelimit-remaining')).toBe(left);
    }
    expect(remaining(store, 'shared', per(10))).toBe(7);
  });

  it('charges the difference to a limit that costs more at a later gate', async () => {
    const { store } = new Clock();
    const shared = { name: 'shared', policy: per(10) };
    const { url } = await serve({
      gates: [
        { store, limits: [{ ...shared, cost: 2 }] },
        { store, limits: [{ ...shared, cost: 5 }] },
        { store, limits: [{ ...shared, cost: 1 }] },
      ],
    });
    expect(await inTurn(url, 3)).toEqual([200, 200, 429]);
    expect(remaining(store, 'shared', per(10))).toBe(0);
  });

  it('charges limits of one name on two stores for themselves', async () => {
    const stores = [new Clock().store, new Clock().store] as const;
    const { url } = await serve({
      gates: stores.map((store, i) => ({ store, limits: [{ name: 'same', policy: per(10 - i) }] })),
    });
    await ask(url);
    expect(stores.map((store, i) => remaining(store, 'same', per(10 - i)))).toEqual([9, 8]);
  });

  it('keeps two gates on one store apart', async () => {
    const { store } = new Clock();
    const daily = {
      name: 'daily',
      policy: fixedWindow({ limit: 500, window: '1d' }),
      by: everyone(),
    };
    const { url } = await serve({
      gates: [
        { store, limits: [daily] },
        { store, limits: [{ name: 'minutely', policy: per(2), by: everyone() }] },
      ],
    });
    expect(await inTurn(url, 3)).toEqual([200, 200, 429]);
    expect((await ask(url)).headers.get('ratelimit-policy')).toBe(
      '"daily";q=500;w=86400, "minutely";q=2;w=60',
    );
  });

  it('says at the start that one name means two policies on one store', async () => {
    const { store } = new Clock();
    const building = serve({
      gates: [
        { store, limits: [{ name: 'same', policy: per(1) }] },
        { store, limits: [{ name: 'same', policy: per(2) }] },
      ],
    });
    await expect(building).rejects.toMatchObject({
      code: 'TOLLGATE_CONFIG',
      path: 'limits[0].policy',
    });
  });
});
