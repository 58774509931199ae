import {
  createLimiter,
  fixedWindow,
  type Limiter,
  type MemoryStore,
  type LimitOptions,
  memoryStore,
  type RefusedKey,
  type Tally,
  TollgateArgumentError,
} from '@tollgate/core';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { mostRefused } from '../src/refusals/listing.ts';

const HOUR_MS = 3_600_000;
/** The start of an hour. */
const START = 1_800_000_000_000;
const closed = fixedWindow({ limit: 0, window: '1d' });

/** A limiter in memory whose time is told. */
function limiterAt(
  limits: readonly LimitOptions[] = [{ name: 'api', policy: closed }],
  logKeys?: 'clear' | 'hash' | false,
): { limiter: Limiter<MemoryStore>; at: (ms: number) => void } {
  let now = START;
  const limiter = createLimiter({
    store: memoryStore({ clock: () => now * 1_000 }),
    limits,
    ...(logKeys !== undefined && { logKeys }),
  });
  return { limiter, at: (ms) => (now = START + ms) };
}

function refuse(limiter: Limiter, key: string, times = 1): void {
  for (let i = 0; i < times; i++) void limiter.consume({ api: key });
}

describe('the most refused keys of a process', () => {
  it('say how often, when, and how fast', () => {
    const { limiter, at } = limiterAt([
      { name: 'api', policy: fixedWindow({ limit: 1, window: '1d' }) },
    ]);
    refuse(limiter, 'ada', 3);
    at(600_000);
    refuse(limiter, 'ada', 8);
    refuse(limiter, 'bob', 2);
    expect(limiter.mostRefused()).toEqual<RefusedKey[]>([
      {
        limit: 'api',
        shadow: false,
        key: 'ada',
        count: 10,
        errorBound: 0,
        firstAtMs: START,
        lastAtMs: START + 600_000,
        perMinute: 1,
      },
      {
        limit: 'api',
        shadow: false,
        key: 'bob',
        count: 1,
        errorBound: 0,
        firstAtMs: START + 600_000,
        lastAtMs: START + 600_000,
        perMinute: 1,
      },
    ]);
    expect(limiter.mostRefused('api', { count: 1 })).toHaveLength(1);
  });

  it('are those of the limit that refuses, not of those that would admit', () => {
    const { limiter } = limiterAt([
      { name: 'api', policy: closed },
      { name: 'tenant', policy: fixedWindow({ limit: 10, window: '1d' }) },
      { name: 'planned', policy: closed, mode: 'shadow' },
    ]);
    limiter.consume({ api: 'ada', tenant: 'acme', planned: 'acme' });
    limiter.consume({ tenant: 'acme', planned: 'acme' });
    limiter.peek({ api: 'ada' });
    limiter.charge({ tenant: 'acme' }, 1);
    expect(limiter.mostRefused()).toMatchObject([
      { limit: 'planned', key: 'acme', count: 2, shadow: true },
      { limit: 'api', key: 'ada', count: 1, shadow: false },
    ]);
    expect(limiter.mostRefused('tenant')).toEqual([]);
  });

  it('are those of a wait that cannot be in time, too', async () => {
    const { limiter } = limiterAt();
    await expect(limiter.wait({ api: 'ada' }, { maxWaitMs: 5 })).rejects.toThrow(
      'never be admitted',
    );
    expect(limiter.mostRefused()).toMatchObject([{ key: 'ada', count: 1 }]);
  });

  it('are forgotten after a day, and may be asked for of fewer hours', () => {
    const { limiter, at } = limiterAt();
    refuse(limiter, 'early', 5);
    at(3 * HOUR_MS + 1);
    refuse(limiter, 'late');
    const keys = (hours?: number): string[] =>
      limiter.mostRefused('api', hours === undefined ? {} : { hours }).map(({ key }) => key);
    expect(keys()).toEqual(['early', 'late']);
    expect(keys(2)).toEqual(['late']);
    // Up to an hour more, since whole hours are counted.
    expect(keys(3)).toEqual(['early', 'late']);
    at(26 * HOUR_MS);
    refuse(limiter, 'last');
    expect(keys()).toEqual(['last', 'late']);
    // A clock that steps back counts in the hour it says.
    at(3 * HOUR_MS);
    refuse(limiter, 'late');
    expect(limiter.mostRefused('api')).toContainEqual(
      expect.objectContaining({ key: 'late', count: 2 }),
    );
  });

  it.each([
    ['clear', 'ada'],
    ['hash', expect.stringMatching(/^[\w-]{22}$/)],
    [false, ''],
  ] as const)('are shown as logKeys says: %s', (logKeys, key) => {
    const { limiter } = limiterAt(undefined, logKeys);
    refuse(limiter, 'ada', 2);
    expect(limiter.mostRefused()).toMatchObject([{ key, count: 2 }]);
  });

  it('are hashed where they are long, and told apart where UTF-8 would not', () => {
    const { limiter } = limiterAt();
    const long = 'x'.repeat(5_000);
    for (const key of [`${long}1`, `${long}2`, '\uD800', '\uD801']) refuse(limiter, key);
    const keys = limiter.mostRefused().map(({ key }) => key);
    expect(new Set(keys).size).toBe(4);
    for (const key of keys) {
      expect(key).toMatch(/^(?:sha256:|\uFFFD…)[\w-]{22,}$/);
      expect(key.isWellFormed()).toBe(true);
    }
  });

  it('are refused by name where options are wrong', () => {
    const { limiter } = limiterAt();
    const wrong = [
      () => limiter.mostRefused('other'),
      () => limiter.mostRefused('api', { count: 0 }),
      () => limiter.mostRefused('api', { count: 201 }),
      () => limiter.mostRefused('api', { hours: 1.5 }),
      () => limiter.mostRefused('api', { top: 3 } as object),
      () => limiter.mostRefused('api', { fleet: 'yes' as never }),
      // Its memory is this process's.
      () => limiter.mostRefused('api', { fleet: true }),
    ];
    for (const call of wrong) expect(call).toThrow(TollgateArgumentError);
  });

  it('are never counted too high, nor too low by more than is said, through hours and floods', () => {
    const key = fc.nat(999).map((n) => `k${Math.floor(n ** 3 / 1_000_000)}`);
    const step = fc.tuple(key, fc.constantFrom(0, 0, 0, 0, HOUR_MS / 50));
    fc.assert(
      fc.property(fc.array(step, { minLength: 500, maxLength: 2_000 }), (steps) => {
        const { limiter, at } = limiterAt();
        const exact = new Map<string, number>();
        let ms = 0;
        for (const [name, pause] of steps) {
          at((ms += pause));
          refuse(limiter, name);
          exact.set(name, (exact.get(name) ?? 0) + 1);
        }
        const top = limiter.mostRefused('api', { count: 200 });
        for (const { key, count, errorBound } of top) {
          const times = exact.get(key) ?? 0;
          expect(count).toBeLessThanOrEqual(times);
          expect(count + errorBound).toBeGreaterThanOrEqual(times);
          expect(errorBound).toBeLessThanOrEqual(steps.length / 200);
        }
        const listed = new Set(top.map(({ key }) => key));
        for (const [name, times] of exact) {
          if (times > steps.length / 100) expect(listed).toContain(name);
        }
      }),
      { numRuns: 20 },
    );
  });

  it('stay few in a flood of new keys, and the one that matters is found', () => {
    const { limiter } = limiterAt();
    for (let i = 0; i < 100_000; i++) {
      refuse(limiter, `flood-${i}`);
      if (i % 20 === 0) refuse(limiter, 'heavy');
    }
    const top = limiter.mostRefused('api', { count: 200 });
    expect(top).toHaveLength(200);
    expect(top[0]).toMatchObject({ key: 'heavy' });
    expect((top[0]?.count ?? 0) + (top[0]?.errorBound ?? 0)).toBeGreaterThanOrEqual(5_000);
  });
});

describe('handing on', () => {
  afterEach(() => vi.useRealTimers());

  /** A store of somebody's own, in memory, that adds up what it is handed. */
  function adding(): { limiter: Limiter; handed: Tally[][]; fail: (how: boolean) => void } {
    const handed: Tally[][] = [];
    let fails = false;
    const store = Object.assign(memoryStore(), {
      tally(tallies: readonly Tally[]) {
        handed.push([...tallies]);
        if (fails) throw new Error('no room');
      },
      mostRefused: (_names: readonly string[] | undefined, count: number) =>
        mostRefused(handed.flat(), count),
    });
    const errors: unknown[] = [];
    const limiter = createLimiter({
      store,
      limits: [{ name: 'api', policy: closed }],
      onStoreError: (error) => errors.push(error),
    });
    return { limiter, handed, fail: (how) => (fails = how) };
  }

  it('happens in one call after some seconds, and only if something was refused', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { limiter, handed } = adding();
    vi.advanceTimersByTime(60_000);
    expect(vi.getTimerCount()).toBe(0);
    refuse(limiter, 'ada', 1_000);
    expect(handed).toEqual([]);
    vi.advanceTimersByTime(6_000);
    expect(handed).toMatchObject([
      [{ name: 'api', missed: 0, keys: [{ key: 'ada', count: 1_000 }] }],
    ]);
    vi.advanceTimersByTime(60_000);
    expect(handed).toHaveLength(1);
  });

  it('never repeats what failed, whose counts may have arrived', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { limiter, handed, fail } = adding();
    fail(true);
    refuse(limiter, 'ada', 3);
    vi.advanceTimersByTime(6_000);
    fail(false);
    refuse(limiter, 'ada', 2);
    vi.advanceTimersByTime(6_000);
    expect(handed.map(([tally]) => tally?.keys[0]?.count)).toEqual([3, 2]);
  });

  it('happens when the list is read, and when the limiter closes', async () => {
    const { limiter, handed } = adding();
    refuse(limiter, 'ada', 3);
    expect(await limiter.mostRefused('api', { fleet: true })).toMatchObject([{ count: 3 }]);
    refuse(limiter, 'ada');
    await limiter.close();
    expect(handed).toHaveLength(2);
  });

  it('keeps no process alive', () => {
    const { limiter } = adding();
    const timers = (): number =>
      process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length;
    const before = timers();
    refuse(limiter, 'ada');
    expect(timers()).toBe(before);
  });
});
