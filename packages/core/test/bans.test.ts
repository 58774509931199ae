import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { BanRule, banForgottenAfter, type BanState } from '../src/ban.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import type { LimitOptions } from '../src/limits.ts';
import { fixedWindow, tokenBucket } from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000;

class World {
  nowMs = START_MS;
  readonly store: MemoryStore = memoryStore({ clock: () => Math.round(this.nowMs * 1_000) });

  limiter(...limits: LimitOptions[]): Limiter<MemoryStore> {
    return createLimiter({ store: this.store, limits });
  }
}

const ban = { after: 3, within: '1m', for: '10s' } as const;
const login = (more: Partial<LimitOptions> = {}): LimitOptions => ({
  name: 'login',
  policy: fixedWindow({ limit: 1, window: '1h' }),
  ban,
  ...more,
});
const key = { login: 'ann' };

describe('a limit with a ban', () => {
  it('bans a key at the refusal that fills the count, and says for how long', () => {
    const world = new World();
    const limiter = world.limiter(login({ policy: tokenBucket({ capacity: 1, rate: 1, per: 1 }) }));
    const refuse = (): unknown => {
      expect(limiter.consume(key).allowed).toBe(true);
      return limiter.consume(key).reason;
    };
    expect([refuse(), limiter.consume(key).reason]).toEqual(['limited', 'limited']);
    const third = limiter.consume(key);
    expect(third).toMatchObject({ allowed: false, reason: 'banned', retryAfterMs: 10_000 });
    expect(third.verdicts[0]).toMatchObject({ remaining: 0, nextAfterMs: 10_000 });
    world.nowMs += 9_999.999;
    expect(limiter.consume(key)).toMatchObject({ reason: 'banned', retryAfterMs: 0.001 });
    world.nowMs += 0.001;
    expect(limiter.consume(key).allowed).toBe(true);
  });

  it('waits for the quota too where that takes longer', () => {
    const world = new World();
    const limiter = world.limiter(login());
    limiter.consume(key);
    for (let i = 0; i < 3; i++) limiter.consume(key);
    const { retryAfterMs } = limiter.peek(key);
    expect(retryAfterMs).toBeGreaterThan(10_000);
    world.nowMs += retryAfterMs;
    expect(limiter.consume(key).allowed).toBe(true);
  });

  it('forgets refusals that are too far apart', () => {
    const world = new World();
    const limiter = world.limiter(login());
    limiter.consume(key);
    for (let i = 0; i < 20; i++) {
      expect(limiter.consume(key).reason).toBe('limited');
      world.nowMs += MINUTE_MS / 2;
    }
  });

  it('grows with each ban up to the longest, and forgets a step for each time as long without one', () => {
    const world = new World();
    const limiter = world.limiter(login({ ban: { ...ban, growth: 3, max: '2m' } }));
    limiter.consume(key);
    const banned = (): number => {
      for (let i = 0; i < 2; i++) expect(limiter.consume(key).reason).toBe('limited');
      expect(limiter.consume(key).reason).toBe('banned');
      let low = 0;
      let high = 3_600_000;
      const startMs = world.nowMs;
      // Halving, since the verdict's wait is that of the quota, which is longer here.
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        world.nowMs = startMs + middle;
        if (limiter.peek(key).reason === 'banned') low = middle;
        else high = middle;
      }
      world.nowMs = startMs + high;
      return high;
    };
    expect([banned(), banned(), banned(), banned()]).toEqual([10_000, 30_000, 90_000, 120_000]);
    world.nowMs += 2 * 120_000;
    expect(banned()).toBe(90_000);
  });

  it('counts no refusal while banned, no shadow refusal, no peek, no wait and no other limit’s', async () => {
    const world = new World();
    const limiter = world.limiter(
      login({ ban: { ...ban, after: 2 } }),
      { name: 'trial', policy: fixedWindow({ limit: 0, window: '1h' }), mode: 'shadow', ban },
      { name: 'other', policy: fixedWindow({ limit: 0, window: '1h' }) },
    );
    limiter.consume(key);
    for (let i = 0; i < 9; i++) {
      limiter.peek(key);
      limiter.consume({ ...key, login: 'bob', trial: 'x', other: 'y' });
    }
    await expect(limiter.wait(key, { maxWaitMs: 1 })).rejects.toThrow();
    expect(limiter.peek({ login: 'bob', trial: 'x' }).reason).toBe('ok');
    expect(limiter.consume(key).reason).toBe('limited');
    expect(limiter.consume(key).reason).toBe('banned');
    for (let i = 0; i < 9; i++) limiter.consume(key);
    world.nowMs += 10_000;
    expect(limiter.peek(key).reason).toBe('limited');
  });

  it('charges nothing of a request whose key is banned', () => {
    const world = new World();
    const limiter = world.limiter(login(), {
      name: 'all',
      policy: fixedWindow({ limit: 9, window: '1h' }),
    });
    limiter.ban(key, 1_000);
    expect(limiter.consume({ ...key, all: 'x' })).toMatchObject({
      allowed: false,
      reason: 'banned',
    });
    expect(limiter.peek({ all: 'x' }).remaining).toBe(9);
  });

  it('refuses a cost of 0 while banned', () => {
    const limiter = new World().limiter(login());
    limiter.ban(key, 1_000);
    expect(limiter.consume(key, { cost: 0 }).reason).toBe('banned');
  });
});

describe('limiter.ban', () => {
  it('bans for a while, on a limit without the option too, and unban ends it', () => {
    const world = new World();
    const limiter = world.limiter({ name: 'api', policy: fixedWindow({ limit: 5, window: '1h' }) });
    const api = { api: 'mallory' };
    limiter.ban(api, 60_000);
    expect(limiter.consume(api)).toMatchObject({ reason: 'banned', retryAfterMs: 60_000 });
    limiter.ban(api, 1_000);
    expect(limiter.consume(api).retryAfterMs).toBe(1_000);
    limiter.unban(api);
    expect(limiter.consume(api)).toMatchObject({ allowed: true, remaining: 4 });
    limiter.ban(api, 1_000);
    limiter.reset(api);
    expect(limiter.consume(api)).toMatchObject({ allowed: true, remaining: 4 });
    limiter.ban(api, 1_000);
    world.nowMs += 1_000;
    expect(limiter.consume(api).allowed).toBe(true);
  });

  it('lasts no longer than it was to when the clock steps back', () => {
    const world = new World();
    const limiter = world.limiter(login());
    limiter.ban(key, 5_000);
    world.nowMs -= 1_000_000;
    expect(limiter.consume(key).reason).toBe('banned');
    world.nowMs += 5_000;
    expect(limiter.consume(key).allowed).toBe(true);
  });

  it.each([0, -1, NaN, Infinity, 401 * 86_400_000])('refuses to ban for %s ms', (forMs) => {
    const limiter = new World().limiter(login());
    expect(() => limiter.ban(key, forMs)).toThrow(/400 days/);
  });

  it('never bans a shadow limit’s requests', () => {
    const limiter = new World().limiter(login({ mode: 'shadow' }));
    limiter.ban(key, 1_000);
    const decision = limiter.consume(key);
    expect(decision.allowed).toBe(true);
    expect(decision.verdicts[0]).toMatchObject({ allowed: false, reason: 'banned', shadow: true });
  });
});

test.each([
  [{ ...ban, after: 0 }, 'limits[0].ban.after'],
  [{ ...ban, after: 1.5 }, 'limits[0].ban.after'],
  [{ ...ban, within: 0 }, 'limits[0].ban.within'],
  [{ ...ban, for: '-1s' }, 'limits[0].ban.for'],
  [{ ...ban, growth: 0.5 }, 'limits[0].ban.growth'],
  [{ ...ban, max: '1s' }, 'limits[0].ban.max'],
  [{ ...ban, length: 1 }, 'limits[0].ban.length'],
  ['always', 'limits[0].ban'],
])('a wrong ban is refused: %j', (wrong, path) => {
  expect(() => new World().limiter(login({ ban: wrong as never }))).toThrow(
    expect.objectContaining({ path }),
  );
});

test('a memory store keeps bans in bounded memory, and the bans longer than the counts', () => {
  const nowMs = START_MS;
  const store = memoryStore({ maxKeys: 100, clock: () => nowMs * 1_000 });
  const limiter = createLimiter({
    store,
    limits: [login({ policy: fixedWindow({ limit: 0, window: '1h' }) })],
  });
  for (let i = 0; i < 10; i++) limiter.ban({ login: `banned ${i}` }, 60_000);
  for (let i = 0; i < 10_000; i++) limiter.consume({ login: `flood ${i}` });
  for (let i = 0; i < 10; i++) {
    expect(limiter.peek({ login: `banned ${i}` }).reason).toBe('banned');
  }
});

test('a ban is never longer than the longest, and all is forgotten in the end', () => {
  const options = fc.record({
    after: fc.integer({ min: 1, max: 4 }),
    within: fc.integer({ min: 1, max: 100_000 }),
    for: fc.integer({ min: 1, max: 100_000 }),
    growth: fc.double({ min: 1, max: 4, noNaN: true }),
  });
  fc.assert(
    fc.property(options, fc.array(fc.nat(50_000_000), { maxLength: 60 }), (given, pauses) => {
      const rule = new BanRule({ ...given, max: 400_000 }, 'ban');
      const state: BanState = [0, 0, 0, 0, 0];
      let now = 1_700_000_000_000_000;
      for (const pause of pauses) {
        now += pause;
        if (state[0] > now) continue;
        rule.strike(state, now);
        const left = Math.max(0, state[0] - now);
        expect(left === 0 || (left >= rule.first && left <= rule.max)).toBe(true);
        expect(Number.isInteger(left)).toBe(true);
        const rest = banForgottenAfter(state, now, rule);
        const later: BanState = [...state];
        expect(banForgottenAfter(later, now + rest, rule)).toBe(0);
      }
    }),
    { numRuns: 500 },
  );
});
