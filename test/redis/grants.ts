import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import type { Receipt } from '../../packages/core/src/algorithm.ts';
import { type Asked, fitting, type Told } from '../../packages/core/src/redis/grant.ts';
import { Items } from '../../packages/core/src/redis/items.ts';
import type { Lease } from '../../packages/core/src/redis/lease.ts';
import { grantItem } from '../../packages/core/src/redis/lease-items.ts';
import { Reply } from '../../packages/core/src/redis/reply.ts';
import { ScriptCall } from '../../packages/core/src/redis/script-call.ts';
import type { Charge } from '../../packages/core/src/store.ts';
import {
  type Family,
  fixedWindows,
  slidingWindows,
  tokenBuckets,
} from '../../packages/core/test/exactness-policies.ts';
import { LAST_INSTANT, spanOf, starts } from '../../packages/core/test/exactness-steps.ts';
import { nextSeed } from '../seed.ts';
import { Model } from './grant-model.ts';

const KEYS = 24;
const TURNS = 40;
/** Steps of a round, most of which are grants. */
export const STEPS_OF_A_ROUND: number = KEYS * TURNS;

export type Leasable = 'token-bucket' | 'fixed-window' | 'sliding-window';

const FAMILIES: Readonly<Record<Leasable, fc.Arbitrary<Family>>> = {
  'token-bucket': tokenBuckets,
  'fixed-window': fixedWindows,
  'sliding-window': slidingWindows,
};

export const LEASABLE: readonly Leasable[] = Object.keys(FAMILIES) as Leasable[];

/** Of a key's quota so much, and so many more: what a number is made of that means something to any policy. */
const amount = fc.tuple(
  fc.constantFrom(0, 0, 0, 0.05, 0.3, 0.5, 1),
  fc.oneof(fc.nat(3), fc.nat(3), fc.nat(200), fc.constantFrom(2 ** 40, 2 ** 51)),
);
type Amount = readonly [part: number, more: number];

const step = fc.record({
  deed: fc.constantFrom(
    ...(['grant', 'grant', 'grant', 'grant', 'grant', 'grant'] as const),
    ...(['charge', 'refund', 'give back', 'ban'] as const),
  ),
  policy: fc.constantFrom(0, 0, 0, 1, 1, 2),
  costs: fc.array(fc.tuple(fc.constantFrom(1, 1, 2, 5, 300), amount), { maxLength: 4 }),
  extra: amount,
  holder: fc.constantFrom(1, 2, 3, 2 ** 48 - 1),
  amount,
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** How the clock moves before a turn: by a part of a key's span, and so many µs more. */
const move = fc.record({
  part: fc.constantFrom(0, 0, 0, 0, 0.1, 0.5, 1, 2, -0.1, -1),
  more: fc.oneof(
    fc.constantFrom(0, 0, 0, 1, 1e14, -1e14),
    fc.integer({ min: -20, max: 200 }),
    fc.integer({ min: -100_000, max: 500_000 }),
  ),
  key: fc.nat(KEYS - 1),
});

/** Up to how long units may be held, in µs; holders are remembered for twice as long. */
const times = fc.constantFrom(1, 5, 50, 1_000, 100_000, 60_000_000);

/** A call that remembers what it was told, so that the name of a charge can be read. */
class OpenCall extends ScriptCall {
  readonly told: number[] = [];

  override tell(...items: number[]): void {
    for (const item of items) this.told.push(item);
    super.tell(...items);
  }
}

const banOf = (key: string): string => `${key}!`;
let rounds = 0;

/** Some keys side by side through random histories. Rejects where Redis says of a grant what TypeScript does not. */
export async function round(client: Redis, sha: string, algorithm: Leasable): Promise<Seen> {
  const seed = nextSeed();
  const draw = <T>(arbitrary: fc.Arbitrary<T>, numRuns: number): T[] =>
    fc.sample(arbitrary, { numRuns, seed });
  const name = `round ${rounds++}`;
  const held = draw(times, KEYS);
  const keys = draw<Family>(FAMILIES[algorithm], KEYS).map((family, index) => ({
    model: new Model(`${name} key ${index}`, family, held[index] as number),
    receipts: [] as Receipt[],
    span: spanOf(family[0] as Family[number]),
  }));
  const steps = draw(step, STEPS_OF_A_ROUND);
  const items = new Items(banOf);
  const seen = { grants: 0, granted: 0, short: 0, shared: 0, banned: 0 };
  let [now] = draw(starts, 1) as [number];
  for (const [turn, { part, more, key }] of draw(move, TURNS).entries()) {
    const to = now + Math.round(part * (keys[key]?.span ?? 0)) + more;
    now = Math.min(LAST_INSTANT, Math.max(0, to));
    const call = new OpenCall(true);
    const checks: ((reply: Reply) => void)[] = [];
    for (const [index, { model, receipts }] of keys.entries()) {
      const drawn = steps[turn * KEYS + index] as Step;
      const { leases } = model;
      const lease = leases[drawn.policy % leases.length] as Lease;
      const { rule, time } = lease.terms;
      const unitsOf = ([share, more]: Amount): number => Math.floor(share * rule.quota) + more;
      const units = Math.max(1, unitsOf(drawn.amount));
      const charge: Charge = {
        name: 'a',
        key: model.key,
        rule,
        cost: units,
        shadow: false,
        receipt: receipts[drawn.holder % Math.max(1, receipts.length)],
      };
      const from = call.told.length;
      switch (drawn.deed) {
        case 'grant': {
          const costs = drawn.costs.map(
            ([count, each]) => [count, Math.max(1, unitsOf(each))] as const,
          );
          const asked: Asked = { costs, extra: unitsOf(drawn.extra) };
          const holder = { id: drawn.holder, storeKey: `${model.key}h` };
          // What ran out goes back with the same call.
          const { receipt } = charge;
          const back =
            drawn.amount[0] > 0 && receipt !== undefined ? [{ lease, units, receipt }] : [];
          const item = grantItem(items, lease, { ...asked, owed: 0, back, at: 0 }, holder);
          item.write(call);
          // What follows the name is who asks, for how long, for what, and for how much more.
          const slot = call.told.at(-(2 * costs.length + 6)) as number;
          for (const draw of back) model.giveBack(rule, units, now, draw.receipt);
          const told = model.grant(rule, asked, drawn.holder, time, now, slot);
          if (told.units > 0) receipts.push(told.state.slice(0, rule.size));
          checks.push((reply) => {
            expect(item.read(reply), `Redis say, of seed ${seed}`).toEqual(told);
          });
          note(seen, asked, told);
          break;
        }
        case 'charge': {
          const item = items.decision([charge], [model.key], 'charge');
          item.write(call);
          receipts.push(model.charge(rule, units, now, call.told[from + 9] as number));
          checks.push((reply) => void item.read(reply));
          break;
        }
        case 'refund':
          items.refund([charge], [model.key]).write(call);
          model.refund(rule, units, now);
          break;
        case 'give back':
          if (charge.receipt === undefined) break;
          items.correct(call, [{ charge, units: -units }], [model.key]);
          model.giveBack(rule, units, now, charge.receipt);
          break;
        case 'ban':
          if (drawn.holder !== 1) break;
          items.ban([banOf(model.key)], Math.min(units, 1e12)).write(call);
          model.ban(now, Math.min(units, 1e12));
      }
    }
    const reply = new Reply(await client.callBuffer('EVALSHA', ...call.args(sha, now)));
    for (const check of checks) check(reply);
  }
  return seen;
}

/** How often what matters came up. */
export interface Seen {
  grants: number;
  granted: number;
  short: number;
  shared: number;
  banned: number;
}

function note(seen: Seen, asked: Asked, { units, free, banned }: Told): void {
  const times = fitting(free, asked.costs);
  const taken = asked.costs.reduce((sum, [, cost], i) => sum + (times[i] as number) * cost, 0);
  // What a process makes of the answer is what the store did.
  expect(units).toBeGreaterThanOrEqual(taken);
  const isShort = asked.costs.some(([count], i) => times[i] !== count);
  if (isShort) expect(units).toBe(taken);
  seen.grants++;
  if (units > 0) seen.granted++;
  if (isShort && free > 0) seen.short++;
  if (units > taken) seen.shared++;
  if (banned > 0) seen.banned++;
}
