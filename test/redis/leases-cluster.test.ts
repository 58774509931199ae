import {
  createLimiter,
  type Decision,
  fixedWindow,
  type Limiter,
  type LimitOptions,
  type Policy,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import type { RedisStore } from '@tollgate/core/redis';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { slotOf } from '../../packages/core/src/redis/slots.ts';
import { RedisStore as Store } from '../../packages/core/src/redis/store.ts';
import { type ClusterClient, CLIENTS } from './cluster-clients.ts';
import { type Node, RedisCluster } from './cluster.ts';

const BUDGET = 60;
const KEYS = 6;
/** Nothing comes back while a test runs, and of the bucket one unit is kept back. */
const POLICIES: readonly Policy[] = [
  fixedWindow({ limit: BUDGET, window: '365d' }),
  slidingWindow({ limit: BUDGET, window: '365d' }),
  tokenBucket({ capacity: BUDGET + 1, rate: 1, per: '100d' }),
];
const [fixed] = POLICIES as readonly [Policy];
/** Longer than a test, so that nothing runs out. */
const lease = { share: 0.2, syncMs: 60_000 };

let cluster: RedisCluster;
const opened: ClusterClient[] = [];

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
  for (const [, open] of CLIENTS) opened.push(await open(cluster));
});

afterAll(async () => {
  for (const each of opened) each.close();
  await cluster.stop();
});

interface Site {
  /** Of stores that share no more than their keys, each with a client library of its own. */
  readonly limiters: readonly Limiter<RedisStore>[];
  readonly prefix: string;
  /** Asks the cluster what remains, through nobody's leases. */
  readonly remaining: (keys: Readonly<Record<string, string>>) => Promise<number[]>;
  readonly pass: (ms: number) => void;
}

let prefixes = 0;

function open(limits: readonly LimitOptions[]): Site {
  const prefix = `p${prefixes++}:`;
  let ms = 1_000_000_000_000;
  const clock = (): number => ms * 1_000;
  const make = ({ client }: ClusterClient): Limiter<RedisStore> => {
    const store = new Store(client, { prefix, clock, deadlineMs: 20_000 });
    const limiter = createLimiter({ store, limits });
    onTestFinished(async () => {
      await limiter.close();
      await store.close();
    });
    return limiter;
  };
  const limiters = opened.map(make);
  const witness = make(opened[0] as ClusterClient);
  return {
    limiters,
    prefix,
    remaining: async (keys) =>
      (await witness.peek(keys)).verdicts.map(({ remaining }) => remaining),
    pass: (by) => {
      ms += by;
    },
  };
}

async function storedKeys(prefix: string): Promise<string[]> {
  const keys = await Promise.all(cluster.masters.map(({ client }) => client.keys(`${prefix}*`)));
  return keys.flat().filter((key) => !key.includes('}1#'));
}

/** What all limiters admit who ask for each of some keys at once. */
async function hammer(
  { limiters, pass }: Site,
  keysOf: (key: number) => Readonly<Record<string, string>>,
  rounds: number,
): Promise<Map<number, Decision[]>> {
  const admitted = new Map<number, Decision[]>();
  for (let round = 0; round < rounds; round++) {
    pass(5);
    const calls = limiters.flatMap((limiter, index) =>
      Array.from({ length: KEYS * (1 + ((round + index) % 3)) }, async (_, turn) => {
        const key = turn % KEYS;
        const decision = await limiter.consume(keysOf(key), { cost: 1 + (turn % 2) });
        if (decision.allowed) admitted.set(key, [...(admitted.get(key) ?? []), decision]);
      }),
    );
    await Promise.all(calls);
  }
  return admitted;
}

function unitsOf(decisions: readonly Decision[]): number {
  return decisions.reduce((sum, { verdicts }) => sum + (verdicts[0]?.cost ?? 0), 0);
}

test.each(POLICIES)(
  'two stores lease keys of several slots of a $algorithm, and give back what is unspent',
  async (policy) => {
    const site = open([{ name: 'a', policy, lease }]);
    const admitted = await hammer(site, (key) => ({ a: `${key}` }), 8);
    const leased = [...admitted.values()].flat().filter(({ source }) => source === 'lease');
    expect(leased.length).toBeGreaterThan(50);
    const keys = await storedKeys(site.prefix);
    // A key's holders are beside it, and no two keys are in one slot.
    expect(new Set(keys.map(slotOf)).size).toBe(KEYS);
    expect(keys.filter((key) => key.includes('}2h:'))).toHaveLength(KEYS);
    for (const { client } of cluster.masters) {
      expect(await client.keys(`${site.prefix}*`)).not.toHaveLength(0);
    }
    for (const limiter of site.limiters) await limiter.close();
    for (const [key, decisions] of admitted) {
      const units = unitsOf(decisions);
      expect(units).toBeLessThan(BUDGET);
      expect(await site.remaining({ a: `${key}` })).toEqual([BUDGET - units]);
    }
  },
);

test.each(POLICIES)('two stores never exceed the budget of a $algorithm', async (policy) => {
  const site = open([{ name: 'a', policy, lease }]);
  const admitted = await hammer(site, (key) => ({ a: `${key}` }), 40);
  for (const decisions of admitted.values()) {
    expect(unitsOf(decisions)).toBeLessThanOrEqual(BUDGET);
    expect(unitsOf(decisions)).toBeGreaterThan(BUDGET * 0.6);
  }
});

test('with limits that are not leased, of other slots, all are charged or none', async () => {
  const site = open([
    { name: 'a', policy: fixed, lease },
    { name: 'b', policy: fixedWindow({ limit: 40, window: '365d' }) },
    { name: 'c', policy: fixedWindow({ limit: 1_000, window: '365d' }), lease },
  ]);
  const keysOf = (key: number): Record<string, string> => ({ a: `${key}`, b: `${key}`, c: 'all' });
  const admitted = await hammer(site, keysOf, 30);
  for (const limiter of site.limiters) await limiter.close();
  let all = 0;
  for (const [key, decisions] of admitted) {
    const units = unitsOf(decisions);
    all += units;
    expect(units).toBeLessThanOrEqual(40);
    expect(units).toBeGreaterThan(30);
    const [a, b] = await site.remaining(keysOf(key));
    expect([key, a, b]).toEqual([key, BUDGET - units, 40 - units]);
  }
  const [, , c] = await site.remaining(keysOf(0));
  expect(c).toBe(1_000 - all);
});

test('a slot that is moved meanwhile loses no unit and spends none twice', async () => {
  const site = open([{ name: 'a', policy: fixed, lease }]);
  const keysOf = (): Record<string, string> => ({ a: 'hot' });
  const admitted = [await hammer(site, keysOf, 1)];
  const [key] = (await storedKeys(site.prefix)) as [string];
  const slot = slotOf(key);
  const from = cluster.ownerOf(slot);
  const to = cluster.masters.find((node) => node !== from) as Node;
  await cluster.openSlot(slot, from, to);
  admitted.push(await hammer(site, keysOf, 1));
  await cluster.moveKeys(await cluster.keysIn(slot, from), from, to);
  admitted.push(await hammer(site, keysOf, 1));
  await cluster.closeSlot(slot, to);
  admitted.push(await hammer(site, keysOf, 5));
  const units = unitsOf(admitted.flatMap((each) => [...each.values()].flat()));
  expect(units).toBeLessThanOrEqual(BUDGET);
  for (const limiter of site.limiters) await limiter.close();
  expect(await site.remaining({ a: 'hot' })).toEqual([BUDGET - units]);
});
