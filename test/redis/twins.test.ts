import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Rule } from '../../packages/core/src/algorithm.ts';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import {
  concurrency,
  fixedWindow,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/core/src/policy.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import type { Answer, Charge, Mode } from '../../packages/core/src/store.ts';
import { memoryStore } from '../../packages/core/src/stores/memory.ts';
import { TIMES } from '../seed.ts';
import { RedisServer } from './server.ts';

/** Policies that take turns on one key, as in a rolling deploy. */
const FAMILIES: readonly (readonly [string, readonly Policy[]])[] = [
  [
    'token-bucket',
    [
      tokenBucket({ capacity: 5, rate: 3, per: '1s' }),
      tokenBucket({ capacity: 9, rate: 7, per: '2s' }),
      tokenBucket({ capacity: 9, rate: 9, per: '2s' }),
      tokenBucket({ capacity: 100, rate: 123_457, per: '30d' }),
    ],
  ],
  [
    'leaky-bucket',
    [
      leakyBucket({ capacity: 5, rate: 3, per: '1s' }),
      leakyBucket({ capacity: 4, rate: 7, per: '2s' }),
    ],
  ],
  [
    'fixed-window',
    [
      fixedWindow({ limit: 4, window: '1s' }),
      fixedWindow({ limit: 9, window: '3s', spread: true }),
      fixedWindow({ limit: 6, window: '3s' }),
    ],
  ],
  [
    'sliding-window',
    [
      slidingWindow({ limit: 4, window: '1s' }),
      slidingWindow({ limit: 9, window: '3s' }),
      slidingWindow({ limit: 1_000_000_000, window: '30d' }),
    ],
  ],
  ['sliding-log', [slidingLog({ limit: 4, window: '1s' }), slidingLog({ limit: 9, window: '3s' })]],
  [
    'concurrency',
    [concurrency({ limit: 3, slotTimeout: '1s' }), concurrency({ limit: 2, slotTimeout: '1s' })],
  ],
];

const HISTORIES = 1_000 * TIMES;
const STEPS = 20;

interface Step {
  readonly deed: Mode | 'settle' | 'refund' | 'renew' | 'reset';
  readonly after: number;
  readonly policy: number;
  readonly units: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  deed: fc.constantFrom<Step['deed'][]>(
    'consume',
    'consume',
    'consume',
    'consume',
    'peek',
    'charge',
    'settle',
    'settle',
    'refund',
    'renew',
    'reset',
  ),
  after: fc.oneof(
    fc.constantFrom(0, 1, 1_000, 10_000_000, -1, 10 ** 13),
    fc.integer({ min: 0, max: 300_000 }),
    fc.integer({ min: -2_000_000, max: 3_000_000 }),
  ),
  policy: fc.nat(3),
  units: fc.nat(6),
});

let now = 0;
let server: RedisServer;
let client: Redis;
let redis: RedisStore;

beforeAll(async () => {
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1');
  redis = new RedisStore(client, { clock: () => now, deadlineMs: 10_000 });
});

afterAll(async () => {
  await redis.close();
  client.disconnect();
  await server.stop();
});

/** The same history in memory and in Redis, told apart by what they answer. */
class Twins {
  private readonly memory = memoryStore({ clock: () => now });
  private readonly key: string;
  private readonly rules: readonly Rule[];
  private readonly held: (readonly [Charge, Charge])[] = [];
  private at = 1_700_000_000_000_000;

  constructor(key: string, policies: readonly Policy[]) {
    this.key = key;
    this.rules = policies.map(ruleOf);
  }

  async take({ deed, after, policy, units }: Step): Promise<void> {
    this.at = Math.max(0, this.at + after);
    const rule = this.rules[policy % this.rules.length] as Rule;
    const cost = rule.holdsSlots ? 1 : units;
    const [one, other] = [this.charge(rule, cost), this.charge(rule, cost)];
    switch (deed) {
      case 'reset':
        now = this.at;
        this.memory.reset([one]);
        return redis.reset([other]);
      case 'refund':
        now = this.at;
        this.memory.refund([one]);
        return redis.refund([other]);
      case 'settle': {
        const [charge, twin] = this.held.splice(units % (this.held.length || 1), 1)[0] ?? [];
        if (charge === undefined || twin === undefined) return;
        const difference = charge.rule.holdsSlots ? -1 : units - Math.min(units + 1, charge.cost);
        now = this.at;
        this.memory.correct([{ charge, units: difference }]);
        return redis.correct([{ charge: twin, units: difference }]);
      }
      case 'renew': {
        const [charge, twin] = this.held[units % (this.held.length || 1)] ?? [];
        if (charge === undefined || twin === undefined || !charge.rule.holdsSlots) return;
        now = this.at;
        const held = this.memory.renew([charge]);
        expect(await redis.renew([twin])).toEqual(held);
        return;
      }
      default: {
        now = this.at;
        const expected = this.memory.decide([one], deed);
        const answer = await redis.decide([other], deed);
        expect(plain(answer)).toEqual(plain(expected));
        if (one.receipt !== undefined) this.held.push([one, other]);
      }
    }
  }

  private charge(rule: Rule, cost: number): Charge {
    return { name: 'twin', key: this.key, rule, cost, shadow: false, receipt: undefined };
  }
}

function plain({ admitted, at, delay, verdicts }: Answer): object {
  return { admitted, at, delay, verdicts };
}

describe('memory and Redis answer alike, field by field', () => {
  test.each(FAMILIES)('%s', { timeout: 60_000 * TIMES }, async (name, policies) => {
    const histories = fc.sample(fc.array(step, { minLength: STEPS, maxLength: STEPS }), HISTORIES);
    let steps = 0;
    for (const [index, history] of histories.entries()) {
      const twins = new Twins(`${name} ${index}`, policies);
      for (const each of history) {
        await twins.take(each);
        steps++;
      }
    }
    expect(steps).toBe(HISTORIES * STEPS);
  });

  test('several limits at once, all or nothing', async () => {
    const memory = memoryStore({ clock: () => now });
    const rules = FAMILIES.map(([, policies]) => ruleOf(policies[0] as Policy));
    now = 1_700_000_000_000_000;
    for (const [after, costs] of fc.sample(
      fc.tuple(fc.nat(900_000), fc.array(fc.nat(3), { minLength: 6, maxLength: 6 })),
      2_000,
    )) {
      now += after;
      const charges = (): Charge[] =>
        rules.map((rule, index) => ({
          name: `layer${index}`,
          key: 'layers',
          rule,
          cost: rule.holdsSlots ? 1 : (costs[index] as number),
          shadow: index === 2,
          receipt: undefined,
        }));
      expect(plain(await redis.decide(charges(), 'consume'))).toEqual(
        plain(memory.decide(charges(), 'consume')),
      );
    }
  });
});

test('every key that a decision leaves has a time to live', async () => {
  const own = new RedisStore(client, { prefix: 'ttl:' });
  for (const [, [policy]] of FAMILIES) {
    const rule = ruleOf(policy as Policy);
    const charge: Charge = {
      name: 'a',
      key: 'k',
      rule,
      cost: 1,
      shadow: false,
      receipt: undefined,
    };
    await own.decide([charge], 'consume');
  }
  const keys = await client.keys('ttl:*');
  expect(keys).toHaveLength(FAMILIES.length);
  for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(0);
  await own.close();
});
