import { describe, expect, it } from 'vitest';
import { TollgateArgumentError, TollgateConfigError } from '../src/errors.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import {
  fixedWindow,
  leakyBucket,
  type Policy,
  type PolicyInput,
  slidingLog,
  tokenBucket,
} from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

function rig(policy: PolicyInput): { clock: HandClock; limiter: Limiter<MemoryStore> } {
  const clock = new HandClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, limiter: createLimiter({ store, limits: [{ name: 'plan', policy }] }) };
}

const plan = 'acme';

describe.each(COUNTING)('a new quota of a %s', (_, make) => {
  it('counts from the next request on, and what is owed stays owed', () => {
    const { limiter } = rig(make(10));
    for (let i = 0; i < 50; i++) limiter.consume({ plan });
    limiter.update('plan', make(20));
    const admitted = Array.from({ length: 12 }, () => limiter.consume({ plan }).allowed);
    expect(admitted.filter(Boolean)).toHaveLength(10);
    expect(limiter.peek({ plan })).toMatchObject({ limit: 20, remaining: 0 });
  });

  it('below what is owed leaves 0, and a true wait', () => {
    const { limiter, clock } = rig(make(10));
    limiter.consume({ plan }, { cost: 8 });
    limiter.update('plan', make(5));
    const refused = limiter.consume({ plan });
    expect(refused).toMatchObject({ allowed: false, limit: 5, remaining: 0 });
    clock.advance(refused.retryAfterMs - 0.001);
    expect(limiter.consume({ plan }).allowed).toBe(false);
    clock.advance(0.001);
    expect(limiter.consume({ plan }).allowed).toBe(true);
  });

  it('may be 0, and be raised again', () => {
    const { limiter } = rig(make(10));
    limiter.consume({ plan });
    limiter.update('plan', make(0));
    expect(limiter.consume({ plan }).retryAfterMs).toBe(Infinity);
    limiter.update('plan', make(10));
    expect(limiter.consume({ plan }).remaining).toBe(8);
  });

  it('of a plan alternating with another mints nothing', () => {
    const { limiter } = rig(make(10));
    const plans = [make(10), make(15)].map((policy) => ({ policies: { plan: policy } }));
    let admitted = 0;
    for (let i = 0; i < 40; i++) if (limiter.consume({ plan }, plans[i % 2]).allowed) admitted++;
    expect(admitted).toBeLessThanOrEqual(15);
    expect(admitted).toBeGreaterThanOrEqual(10);
  });
});

describe('a policy that is replaced', () => {
  it('leaves nothing of the old one', () => {
    const { limiter, clock } = rig(tokenBucket({ capacity: 20, rate: 20, per: '60s' }));
    limiter.update('plan', tokenBucket({ capacity: 10, rate: 10, per: '60s' }));
    expect(limiter.peek({ plan }).remaining).toBe(10);
    expect(limiter.consume({ plan }, { cost: 12 }).retryAfterMs).toBe(Infinity);
    expect(limiter.consume({ plan }, { cost: 10 }).allowed).toBe(true);
    expect(limiter.consume({ plan }).retryAfterMs).toBe(6_000);
    clock.advance(6_000);
    expect(limiter.consume({ plan }).allowed).toBe(true);
  });

  it('waits as long as the new limit asks', () => {
    const { limiter, clock } = rig(slidingLog({ limit: 10, window: '60s' }));
    for (let i = 0; i < 8; i++) {
      limiter.consume({ plan });
      clock.advance(1_000);
    }
    limiter.update('plan', slidingLog({ limit: 5, window: '60s' }));
    expect(limiter.consume({ plan })).toMatchObject({ remaining: 0, retryAfterMs: 55_000 });
  });

  it('is parsed like any other, and stays when the new one is wrong', () => {
    const { limiter } = rig(fixedWindow({ limit: 5, window: '1d' }));
    const wrong = { algorithm: 'fixed-window', limit: -1, window: '1d' } as const;
    expect(() => limiter.update('plan', wrong)).toThrow(TollgateConfigError);
    expect(() => limiter.update('plan', wrong)).toThrow(/^policy\.limit: expected a number of 0/);
    expect(() => limiter.update('other', wrong)).toThrow(TollgateArgumentError);
    expect(() => limiter.update('constructor', wrong)).toThrow(/There is no limit "constructor"/);
    expect(limiter.peek({ plan }).limit).toBe(5);
    limiter.update('plan', { algorithm: 'fixed-window', limit: 7, window: '1d' });
    expect(limiter.peek({ plan }).limit).toBe(7);
  });

  it('must have room for a fixed cost', () => {
    const policy = fixedWindow({ limit: 5, window: '1d' });
    const limiter = createLimiter({ limits: [{ name: 'plan', policy, cost: 5 }] });
    const small = fixedWindow({ limit: 4, window: '1d' });
    expect(() => limiter.update('plan', small)).toThrow(/cost of 5 can never be admitted/);
    expect(limiter.consume({ plan }).allowed).toBe(true);
  });

  it('by another algorithm starts fresh, and the old state is there again afterwards', () => {
    const { limiter } = rig(fixedWindow({ limit: 5, window: '1d' }));
    limiter.consume({ plan }, { cost: 4 });
    const queue = leakyBucket({ capacity: 5, rate: 1, per: '1s' });
    limiter.update('plan', queue);
    expect(limiter.consume({ plan }, { cost: 2 }).remaining).toBe(3);
    limiter.update('plan', fixedWindow({ limit: 5, window: '1d' }));
    expect(limiter.peek({ plan }).remaining).toBe(1);
    limiter.update('plan', queue);
    expect(limiter.peek({ plan }).remaining).toBe(3);
  });

  it('by any other algorithm leaves the states of all of them apart', () => {
    const { limiter } = rig(fixedWindow({ limit: 9, window: '1d' }));
    const kinds = COUNTING.filter(([name]) => name !== 'gcra' && name !== 'spread window');
    const plans = kinds.map(([, make]) => ({ plan: make(9) }));
    plans.forEach((policies, cost) => limiter.consume({ plan }, { policies, cost }));
    const left = plans.map((policies) => limiter.peek({ plan }, { policies }).remaining);
    expect(left).toEqual([9, 8, 7, 6, 5]);
  });
});

describe('a policy brought by the call', () => {
  const gold = tokenBucket({ capacity: 100, rate: 1, per: '1h' });
  const basic = { algorithm: 'token-bucket', capacity: 2, rate: 1, per: '1h' } as const;

  it('goes before the fixed one, for this call', () => {
    const { limiter } = rig(tokenBucket({ capacity: 10, rate: 1, per: '1h' }));
    expect(limiter.consume({ plan }, { policies: { plan: gold } })).toMatchObject({
      remaining: 99,
    });
    expect(limiter.consume({ plan }, { policies: { plan: basic } }).remaining).toBe(0);
    expect(limiter.consume({ plan })).toMatchObject({ limit: 10, remaining: 7 });
    expect(limiter.peek({ plan }, { policies: {} }).limit).toBe(10);
  });

  it('may be all that a limit has', () => {
    const limiter = createLimiter({ limits: [{ name: 'plan' }] });
    expect(() => limiter.consume({ plan })).toThrow(TollgateArgumentError);
    expect(() => limiter.consume({ plan })).toThrow(
      /plan has no fixed policy; bring one in policies/,
    );
    expect(limiter.consume({}).allowed).toBe(true);
    expect(limiter.consume({ plan }, { policies: { plan: basic } }).remaining).toBe(1);
    limiter.update('plan', gold);
    expect(limiter.consume({ plan }).remaining).toBe(98);
  });

  it('is read anew when the object was changed', () => {
    const limiter = createLimiter({ limits: [{ name: 'plan' }] });
    const mine: { algorithm: 'fixed-window'; limit: number; window: string } = {
      algorithm: 'fixed-window',
      limit: 5,
      window: '1d',
    };
    limiter.consume({ plan }, { policies: { plan: mine } });
    mine.limit = 9;
    expect(limiter.consume({ plan }, { policies: { plan: mine } }).remaining).toBe(7);
  });

  it('that is wrong throws with its path and changes nothing', () => {
    const { limiter } = rig(gold);
    for (const [wrong, path] of [
      [{ ...basic, capacity: -1 }, 'policies.plan.capacity'],
      [{ ...basic, per: '500d' }, 'policies.plan.per'],
      [{ ...basic, max: 5 }, 'policies.plan.max'],
      [null, 'policies.plan'],
      ['gold', 'policies.plan'],
    ] as const) {
      const policies = { plan: wrong as PolicyInput };
      expect(() => limiter.consume({ plan }, { policies })).toThrow(TollgateConfigError);
      expect(() => limiter.consume({ plan }, { policies })).toThrow(new RegExp(`^${path}: `));
    }
    expect(limiter.store.size).toBe(0);
  });
});

describe('a store that limiters share', () => {
  const five = fixedWindow({ limit: 5, window: '1d' });
  const nine = fixedWindow({ limit: 9, window: '1d' });
  const on = (store: MemoryStore, policy?: Policy): Limiter<MemoryStore> =>
    createLimiter({
      store,
      limits: [policy === undefined ? { name: 'plan' } : { name: 'plan', policy }],
    });

  it('has one budget for one name', () => {
    const store = memoryStore();
    const limiters = [on(store, five), on(store, fixedWindow({ limit: 5, window: '24h' }))];
    for (const limiter of limiters) limiter.consume({ plan }, { cost: 2 });
    for (const limiter of limiters) expect(limiter.peek({ plan }).remaining).toBe(1);
    expect(on(memoryStore(), five).peek({ plan }).remaining).toBe(5);
  });

  it('has no two fixed policies for one name', () => {
    const store = memoryStore();
    on(store, five);
    expect(() => on(store, nine)).toThrow(TollgateConfigError);
    expect(() => on(store, nine)).toThrow(
      /^limits\[0\]\.policy: another limiter on this store means .*"limit":5.* by the name "plan"; use another name/,
    );
    on(store).consume({ plan }, { policies: { plan: nine } });
    on(memoryStore(), nine);
  });

  it('lets a name be used anew when those who used it are closed', () => {
    const store = memoryStore();
    const [first, second] = [on(store, five), on(store, five)];
    first.close();
    expect(() => on(store, nine)).toThrow(TollgateConfigError);
    first.close();
    expect(() => on(store, nine)).toThrow(TollgateConfigError);
    second.close();
    expect(on(store, nine).peek({ plan }).limit).toBe(9);
  });

  it('knows a policy by what it was updated to', () => {
    const store = memoryStore();
    const first = on(store, five);
    first.update('plan', nine);
    expect(() => on(store, five)).toThrow(/"limit":9/);
    on(store, nine).close();
    first.close();
    on(store, five);
  });
});
