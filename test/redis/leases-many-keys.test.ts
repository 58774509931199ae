import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type LeaseEvent,
  type Limiter,
  type LimitOptions,
} from '@tollgate/core';
import type { RedisStore } from '@tollgate/core/redis';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { nextSeed } from '../seed.ts';
import { storeAt } from './limiters.ts';
import { RedisServer } from './server.ts';

/** Leases that a process holds at most here; elsewhere ten times as many. */
const MOST = 1_000;
const BUDGET = 150;
const KEYS = 8;

let server: RedisServer;
let prefixes = 0;

beforeAll(async () => {
  server = await RedisServer.start();
});

afterAll(() => server.stop());

/** What a store keeps to itself. */
interface Inside {
  readonly leases: {
    readonly table: {
      most: number;
      readonly all: ReadonlyMap<{ lease: { isAsking: boolean } }, string>;
      readonly byRule: ReadonlyMap<unknown, ReadonlyMap<string, unknown>>;
      readonly byLine: ReadonlyMap<string, ReadonlySet<unknown>>;
    };
  };
}

function tableOf(store: RedisStore): Inside['leases']['table'] {
  return (store as unknown as Inside).leases.table;
}

const policy = fixedWindow({ limit: BUDGET, window: '365d' });

test('more keys at once than leases are held of are all decided, and then forgotten', async () => {
  const store = storeAt(server.port, { deadlineMs: 20_000 });
  const limits = [{ name: 'a', policy, lease: {}, whenStoreFails: 'deny' as const }];
  const limiter = createLimiter({ store, limits });
  const table = tableOf(store);
  expect(table.most).toBe(10_000);
  table.most = MOST;
  const consume = async (first: number, count: number): Promise<Decision[]> =>
    Promise.all(Array.from({ length: count }, (_, i) => limiter.consume({ a: `${first + i}` })));
  const all = await consume(0, MOST + 400);
  expect(all.filter(({ allowed }) => allowed)).toHaveLength(MOST + 400);
  for (let first = MOST + 400; table.all.size > MOST; first += 50) await consume(first, 50);
  expect(table.all.size).toBe(MOST);
  expect(table.byLine.size).toBe(MOST);
  expect([...table.byRule.values()].map(({ size }) => size)).toEqual([MOST]);
  await limiter.close();
  expect([table.all.size, table.byLine.size, table.byRule.size]).toEqual([0, 0, 0]);
});

const step = fc.record({
  process: fc.nat(1),
  a: fc.nat(KEYS - 1),
  c: fc.option(fc.nat(KEYS - 1)),
  cost: fc.constantFrom(1, 1, 1, 2, 3),
  count: fc.integer({ min: 1, max: 4 }),
  settled: fc.constantFrom(false, false, false, true),
});

describe.each([1, 5])('with room for leases of %s keys', (most) => {
  test.each([
    ['that last', 60_000],
    ['that run out', 20],
  ])('no unit is spent twice of leases %s', async (_, syncMs) => {
    const lease = { syncMs, share: 0.3 };
    const limits: LimitOptions[] = ['a', 'c'].map((name) => ({ name, policy, lease }));
    let ms = 1_000_000_000_000;
    const prefix = `p${prefixes++}:`;
    const open = (): { store: RedisStore; limiter: Limiter<RedisStore> } => {
      const store = storeAt(server.port, { prefix, deadlineMs: 20_000, clock: () => ms * 1_000 });
      tableOf(store).most = most;
      return { store, limiter: createLimiter({ store, limits }) };
    };
    const processes = [open(), open()] as const;
    const admitted = new Map<string, number>();
    const note = (keys: Readonly<Record<string, string>>, units: number): void => {
      for (const line of Object.entries(keys).map(String)) {
        admitted.set(line, (admitted.get(line) ?? 0) + units);
      }
    };
    const steps = fc.array(step, { minLength: 6, maxLength: 6 });
    const rounds = fc.sample(steps, { numRuns: 70, seed: nextSeed() });
    let returned = 0;
    const listener = (message: unknown): void => {
      const { event, units } = message as LeaseEvent;
      if (event === 'returned') returned += units;
    };
    subscribe('tollgate:lease', listener);
    onTestFinished(() => void unsubscribe('tollgate:lease', listener));
    for (const round of rounds) {
      ms += 3;
      await Promise.all(
        round.map(async ({ process, a, c, cost, count, settled }) => {
          const { limiter } = processes[process] as (typeof processes)[number];
          const keys = { a: `${a}`, ...(c !== null && { c: `${c}` }) };
          const calls = Array.from({ length: count }, () => limiter.consume(keys, { cost }));
          for (const decision of await Promise.all(calls)) {
            if (!decision.allowed) continue;
            note(keys, cost);
            if (!settled) continue;
            await decision.settle(c === null ? { a: 0 } : { a: 0, c: 0 });
            note(keys, -cost);
          }
        }),
      );
      for (const units of admitted.values()) expect(units).toBeLessThanOrEqual(BUDGET);
      for (const { store } of processes) {
        const idle = [...tableOf(store).all.keys()].filter((entry) => !entry.lease.isAsking);
        // As many as there are keys of one round came while all others were asked for.
        expect(idle.length).toBeLessThanOrEqual(most + 12);
      }
    }
    // Else no lease had anything left when it went.
    expect(returned).toBeGreaterThan(50);
    for (const { limiter } of processes) await limiter.close();
    const witness = open().limiter;
    for (const [line, units] of admitted) {
      const [name, key] = line.split(',') as [string, string];
      const { remaining } = await witness.peek({ [name]: key });
      expect(remaining).toBeLessThanOrEqual(BUDGET - units);
      // Nothing ran out, and so nothing was lost.
      if (syncMs > 1_000) expect([line, remaining]).toEqual([line, BUDGET - units]);
    }
    await witness.close();
  });
});

test('what is owed of keys that make room for others stays within the overdraft', async () => {
  const overdraft = 3;
  const limits = [{ name: 'a', policy, lease: { overdraft } }];
  const store = storeAt(server.port, { prefix: 'owed:', deadlineMs: 20_000 });
  tableOf(store).most = 2;
  const limiter = createLimiter({ store, limits });
  const keys = ['k', 'l', 'm', 'n'];
  const witness = createLimiter({ store: storeAt(server.port, { prefix: 'owed:' }), limits });
  for (const key of keys) await witness.charge({ a: key }, BUDGET);
  const admitted = new Map<string, number>();
  for (let round = 0; round < 20; round++) {
    for (const key of keys) {
      const { allowed } = await limiter.consume({ a: key });
      if (allowed) admitted.set(key, (admitted.get(key) ?? 0) + 1);
      await witness.peek({ a: key });
    }
  }
  for (const units of admitted.values()) expect(units).toBeLessThanOrEqual(overdraft);
  await limiter.close();
  await witness.close();
});
