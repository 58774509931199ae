import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Rule } from '../../packages/core/src/algorithm.ts';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import { createLimiter } from '../../packages/core/src/limiter.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/core/src/policy.ts';
import { slotOf } from '../../packages/core/src/redis/slots.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import type { Answer, Charge } from '../../packages/core/src/store.ts';
import { memoryStore } from '../../packages/core/src/stores/memory.ts';
import { type ClusterClient, CLIENTS } from './cluster-clients.ts';
import { RedisCluster } from './cluster.ts';

/** A store as slow as a busy machine may be is no fault here. */
const PATIENT = { deadlineMs: 20_000 } as const;

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
});

afterAll(() => cluster.stop());

async function storedKeys(prefix: string): Promise<string[]> {
  const keys = await Promise.all(cluster.masters.map(({ client }) => client.keys(`${prefix}*`)));
  // Not the list of refused keys, which is written when there is time.
  return keys.flat().filter((key) => !key.includes('}1#'));
}

test('slots are reckoned as Redis does, wherever braces stand', async () => {
  const [{ client }] = cluster.masters as [RedisCluster['masters'][number]];
  const text = fc.string({ unit: fc.constantFrom('{', '}', 'a', 'ß', '字', '😀', ':', ' ') });
  const keys = fc.sample(fc.oneof(text, fc.string()), 2_000);
  const batch = client.pipeline();
  for (const key of keys) batch.cluster('KEYSLOT', key);
  const slots = (await batch.exec())?.map(([, slot]) => slot);
  expect(keys.map(slotOf)).toEqual(slots);
});

const LAYERS: readonly Rule[] = [
  tokenBucket({ capacity: 5, rate: 3, per: '1s' }),
  fixedWindow({ limit: 4, window: '1s' }),
  slidingWindow({ limit: 6, window: '1s' }),
  slidingLog({ limit: 5, window: '1s' }),
  leakyBucket({ capacity: 6, rate: 5, per: '1s' }),
  concurrency({ limit: 3, slotTimeout: '1s' }),
].map(ruleOf);

const HISTORIES = 6;
const STEPS = 40;

const step = fc.record({
  deed: fc.oneof(
    { weight: 8, arbitrary: fc.constant('consume' as const) },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        ...(['peek', 'charge', 'settle', 'refund', 'renew', 'reset'] as const),
      ),
    },
  ),
  after: fc.oneof(fc.constantFrom(0, 0, 1, 1_000_000), fc.nat(100_000)),
  layers: fc.subarray([0, 1, 2, 3, 4, 5], { minLength: 2, maxLength: 4 }),
  shadow: fc.nat(9),
  cost: fc.integer({ min: 1, max: 3 }),
});

describe.each(CLIENTS)('%s', (name, open) => {
  let opened: ClusterClient;
  let now = 1_700_000_000_000_000;

  beforeAll(async () => {
    opened = await open(cluster);
  });

  afterAll(() => opened.close());

  test('limits of several slots answer as they do in memory, field by field', async () => {
    const redis = new RedisStore(opened.client, {
      ...PATIENT,
      prefix: `${name}:`,
      clock: () => now,
    });
    const memory = memoryStore({ clock: () => now });
    const history = fc.array(step, { minLength: STEPS, maxLength: STEPS });
    let refused = 0;
    for (const [index, steps] of fc.sample(history, HISTORIES).entries()) {
      const held: [Charge, Charge][][] = [];
      for (const { deed, after, layers, shadow, cost } of steps) {
        now += after;
        const pairs = layers.map((layer): [Charge, Charge] => {
          const rule = LAYERS[layer] as Rule;
          const charge = {
            name: `layer${layer}`,
            key: `${index}`,
            rule,
            cost: rule.holdsSlots ? 1 : cost,
            shadow: layer === shadow,
          };
          return [
            { ...charge, receipt: undefined },
            { ...charge, receipt: undefined },
          ];
        });
        const [own, twins] = [pairs.map(([one]) => one), pairs.map(([, other]) => other)];
        switch (deed) {
          case 'reset':
            memory.reset(own);
            await redis.reset(twins);
            break;
          case 'refund':
            memory.refund(own);
            await redis.refund(twins);
            break;
          case 'renew': {
            const slots = held.flat().filter(([{ rule }]) => rule.holdsSlots);
            const kept = memory.renew(slots.map(([one]) => one));
            expect(await redis.renew(slots.map(([, other]) => other))).toEqual(kept);
            break;
          }
          case 'settle': {
            const settled = held.shift() ?? [];
            const unitsOf = ({ rule, cost: all }: Charge): number => (rule.holdsSlots ? -1 : -all);
            memory.correct(settled.map(([charge]) => ({ charge, units: unitsOf(charge) })));
            await redis.correct(settled.map(([, charge]) => ({ charge, units: unitsOf(charge) })));
            break;
          }
          default: {
            const expected = memory.decide(own, deed);
            expect(plain(await redis.decide(twins, deed))).toEqual(plain(expected));
            const charged = pairs.filter(([{ receipt }]) => receipt !== undefined);
            expect(twins.filter(({ receipt }) => receipt !== undefined)).toHaveLength(
              charged.length,
            );
            if (charged.length > 0) held.push(charged);
            if (!expected.admitted) refused++;
          }
        }
      }
    }
    // Else nothing was given back, and nothing proven.
    expect(refused).toBeGreaterThan(30);
    await redis.close();
  });

  test('under load no layer is exceeded, and a refusal leaves nothing charged', async () => {
    const store = new RedisStore(opened.client, {
      ...PATIENT,
      prefix: `${name} load:`,
      clock: () => now,
    });
    const limits = [
      { name: 'tenant', policy: fixedWindow({ limit: 30, window: '1d' }), cost: 1 },
      { name: 'route', policy: slidingLog({ limit: 45, window: '1d' }), cost: 1 },
      { name: 'all', policy: tokenBucket({ capacity: 100, rate: 1, per: '1d' }), cost: 1 },
    ];
    // Limiters that disagree about the order hold what the others want.
    const orders = [limits, limits.toReversed()].map((own) =>
      createLimiter({ store, limits: own }),
    );
    const keysOf = (turn: number): Record<'tenant' | 'route' | 'all', string> => ({
      tenant: `t${turn % 5}`,
      route: `r${turn % 3}`,
      all: 'all',
    });
    const admitted = new Map<string, number>();
    const turns = Array.from({ length: 300 }, (_, turn) => turn);
    for (let from = 0; from < turns.length; from += 100) {
      await Promise.all(
        turns.slice(from, from + 100).map(async (turn) => {
          const keys = keysOf(turn);
          const limiter = orders[turn % 2] as (typeof orders)[number];
          const decision = await limiter.consume(keys);
          expect(decision.source).toBe('store');
          if (!decision.allowed) return;
          for (const line of Object.entries(keys).map(String)) {
            admitted.set(line, (admitted.get(line) ?? 0) + 1);
          }
        }),
      );
    }
    const [limiter] = orders as [(typeof orders)[number]];
    for (const turn of turns.slice(0, 15)) {
      const keys = keysOf(turn);
      const { verdicts } = await limiter.peek(keys);
      for (const { name: limit, key, limit: quota, remaining } of verdicts) {
        const taken = admitted.get(`${limit},${key}`) ?? 0;
        expect([limit, key, quota - remaining]).toEqual([limit, key, taken]);
        expect(taken).toBeLessThanOrEqual(quota);
      }
    }
    // What was refused for others' sake was refused needlessly, but not for good.
    while ((await limiter.consume(keysOf(0))).allowed);
    while ((await limiter.consume(keysOf(1))).allowed);
    while ((await limiter.consume(keysOf(2))).allowed);
    while ((await limiter.consume(keysOf(3))).allowed);
    expect((await limiter.peek({ all: 'all' })).remaining).toBe(0);
    await Promise.all(orders.map((each) => each.close()));
  });

  test('braces in keys spread nothing and join nothing', async () => {
    const prefix = `${name} braces:`;
    const store = new RedisStore(opened.client, { ...PATIENT, prefix });
    const limiter = createLimiter({
      store,
      limits: [{ name: 'user', policy: slidingLog({ limit: 2, window: '1d' }) }],
    });
    const users = Array.from({ length: 30 }, (_, index) => [`{same}${index}`, `}{${index}`]).flat();
    for (const _ of ['first', 'second', 'third']) {
      const decisions = await Promise.all(users.map((user) => limiter.consume({ user })));
      expect(new Set(decisions.map(({ allowed }) => allowed))).toEqual(new Set([_ !== 'third']));
    }
    const keys = await storedKeys(prefix);
    expect(keys).toHaveLength(users.length);
    expect(new Set(keys.map(slotOf)).size).toBeGreaterThan(users.length / 2);
    await limiter.close();
  });

  test('a prefix with braces puts all keys in one slot, and decides alike', async () => {
    const store = new RedisStore(opened.client, { ...PATIENT, prefix: `{${name} prefix}:` });
    const limiter = createLimiter({
      store,
      limits: [
        { name: 'ip', policy: slidingLog({ limit: 3, window: '1d' }) },
        { name: 'user', policy: slidingLog({ limit: 2, window: '1d' }) },
      ],
    });
    const keys = { ip: '192.0.2.1', user: 'anna' };
    const decisions = await Promise.all([1, 2, 3, 4].map(() => limiter.consume(keys)));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, false, false]);
    expect((await limiter.peek({ ip: '192.0.2.1' })).remaining).toBe(1);
    await limiter.close();
  });
});

function plain({ admitted, at, delay, verdicts }: Answer): object {
  return { admitted, at, delay, verdicts };
}
