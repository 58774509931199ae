import fc from 'fast-check';
import type { RedisStore } from '../../packages/core/src/redis/store.ts';
import type { Answer, Charge } from '../../packages/core/src/store.ts';
import { MemoryStore } from '../../packages/core/src/stores/memory.ts';
import {
  type Announced,
  compare,
  costs,
  guessOf,
  moved,
  type Pair,
  spanOf,
  type Step,
  step,
  unitsOf,
} from '../../packages/core/test/exactness-steps.ts';
import { type Ask, Oracle } from '../../packages/core/test/oracle.ts';

/** A limit of a trio's key: policies of one algorithm that take turns. */
export interface Layer {
  readonly name: string;
  readonly shadow: boolean;
  readonly pairs: readonly Pair[];
}

/** What a trio does next. */
export interface TrioStep extends Step {
  /** Which limits apply, a bit each; the first where none would. */
  readonly applies: number;
  readonly costs: readonly Step['cost'][];
}

export const trioSteps: fc.Arbitrary<TrioStep> = fc
  .tuple(step, fc.nat(15), fc.array(costs, { minLength: 4, maxLength: 4 }))
  .map(([drawn, applies, made]) => ({ ...drawn, applies, costs: made }));

type Deciding = 'consume' | 'peek' | 'charge';

/** A log keeps every unit, and writes each by itself. */
const MOST_LOGGED = 300;
/** Steps that are told where two answers differ. */
const TOLD = 15;

/** One charge, as each of the three got it. */
interface Part {
  readonly memory: Charge;
  readonly redis: Charge;
  readonly ask: Ask;
}

interface Booked {
  readonly at: number;
  readonly parts: readonly Part[];
  readonly receipts: readonly unknown[];
}

/** One key's history, told to the memory store, to the oracle and to Redis. */
export class Trio {
  readonly key: string;
  private readonly layers: readonly Layer[];
  private readonly redis: RedisStore;
  private readonly now: () => number;
  private readonly memory: MemoryStore;
  private readonly oracle = new Oracle();
  private readonly announced = new Map<string, Announced>();
  private readonly booked: Booked[] = [];
  private readonly lines: string[] = [];

  constructor(key: string, layers: readonly Layer[], redis: RedisStore, now: () => number) {
    this.key = key;
    this.layers = layers;
    this.redis = redis;
    this.now = now;
    this.memory = new MemoryStore({ clock: now });
  }

  /** Where the clock is to go for a step: mostly to an instant that one of the limits announced. */
  wish(each: TrioStep): number {
    const layer = this.layers[each.amount % this.layers.length] as Layer;
    const { rule } = this.pairOf(layer, each);
    const now = this.now();
    const nothing = { at: now, retryAfter: 0, nextAfter: 0, resetAfter: 0, remaining: 0 };
    const announced = this.announced.get(layer.name) ?? nothing;
    const instants = this.booked.map(({ at }) => at);
    return moved(now, each, spanOf(rule.policy), announced, instants);
  }

  /**
   * The names of limits that have at least so many policies, and that owe nothing by one of them. They are forgotten: a
   * store may do so whenever it likes, which shows once the clock steps back, or by another policy.
   */
  forgetWhole(policies: number): { name: string; key: string }[] {
    const whole = this.layers.filter(
      ({ name, pairs }) =>
        pairs.length >= policies &&
        pairs.some(({ rule, terms }) => {
          const offset = rule.offset(this.key);
          return this.oracle.isWhole(
            { key: name, terms, cost: 0, shadow: false, offset },
            this.now(),
          );
        }),
    );
    return this.forget(whole.map(({ name }) => name));
  }

  async step(each: TrioStep): Promise<void> {
    try {
      await this.take(each);
    } catch (error) {
      const layers = this.layers.map(({ name, shadow, pairs }) =>
        JSON.stringify({ name, shadow, policies: pairs.map(({ rule }) => rule.policy) }),
      );
      throw new Error([...layers, ...this.lines.slice(-TOLD), String(error)].join('\n'), {
        cause: error,
      });
    }
  }

  private take(each: TrioStep): Promise<unknown> {
    const { deed, amount } = each;
    if (deed === 'settleDown' || deed === 'settleUp') return this.settle(each);
    if (deed === 'renew') return this.renew(amount);
    const parts = this.parts(each);
    // Now and then.
    if (amount % 60 === 0) return this.reset(parts.map(({ memory }) => memory.name));
    this.tell(deed, parts);
    if (deed !== 'refund') return this.decide(deed, parts);
    this.memory.refund(parts.map(({ memory }) => memory));
    for (const { ask } of parts) this.oracle.refund(ask, this.now());
    return this.redis.refund(parts.map(({ redis }) => redis));
  }

  private async decide(mode: Deciding, parts: readonly Part[]): Promise<void> {
    const now = this.now();
    const charges = parts.map(({ memory }) => memory);
    const twins = parts.map(({ redis }) => redis);
    const answer = this.memory.decide(charges, mode);
    const guesses = charges.map((_, index) => guessOf(answer, index));
    const told = this.oracle.decide(
      parts.map(({ ask }) => ask),
      mode,
      now,
      guesses,
    );
    compare(answer, told, charges, now);
    for (const [index, { name }] of charges.entries()) {
      this.announced.set(name, { at: now, ...guessOf(answer, index) });
    }
    const { receipts } = told;
    if (receipts.length > 0) this.booked.push({ at: now, parts, receipts });
    let other: Answer;
    try {
      other = await this.redis.decide(twins, mode);
      compare(other, told, twins, now);
      if (other.admitted !== answer.admitted)
        throw new Error(`admitted: the store says ${other.admitted}`);
    } catch (error) {
      throw new Error(`in Redis: ${String(error)}`, { cause: error });
    }
  }

  /** Corrects every charge of a decision, down or up. */
  private settle({ deed, amount }: TrioStep): Promise<void> {
    // Mostly one of the newest: old receipts are worth nothing.
    const [booked] = this.booked.splice(Math.max(0, this.booked.length - 1 - (amount % 4)), 1);
    if (booked === undefined) return Promise.resolve();
    const { at, parts, receipts } = booked;
    const corrections = parts.flatMap((part, index) => {
      const { memory, ask } = part;
      if (memory.receipt === undefined) return [];
      const down = -Math.min(
        memory.cost,
        Math.ceil((memory.cost * (((amount + index) % 10) + 1)) / 10),
      );
      const units = deed === 'settleUp' && !memory.rule.holdsSlots ? 1 + (amount % 50) : down;
      this.oracle.correct(ask, receipts[index], units, this.now());
      return [{ ...part, units }];
    });
    this.tell(
      `settle what was charged at ${at} by ${corrections.map(({ units }) => units).join()}`,
      parts,
    );
    this.memory.correct(corrections.map(({ memory, units }) => ({ charge: memory, units })));
    return this.redis.correct(corrections.map(({ redis, units }) => ({ charge: redis, units })));
  }

  private async renew(amount: number): Promise<void> {
    const held = this.booked.flatMap(({ parts, receipts }) =>
      parts.flatMap((part, index) =>
        part.memory.rule.holdsSlots && part.memory.receipt !== undefined
          ? [{ ...part, receipt: receipts[index] }]
          : [],
      ),
    );
    const one = held[amount % (held.length || 1)];
    if (one === undefined) return;
    this.tell('renew', [one]);
    const expected = this.oracle.renew(one.ask, one.receipt, this.now());
    const said = [...this.memory.renew([one.memory]), ...(await this.redis.renew([one.redis]))];
    if (said.some((each) => each !== expected)) {
      throw new Error(`renew: memory and Redis say ${said.join()}, the oracle ${expected}`);
    }
  }

  private reset(names: readonly string[]): Promise<void> {
    this.tell(`reset ${names.join()}`, []);
    const forgotten = this.forget(names);
    return this.redis.reset(forgotten);
  }

  /** Forgets keys in memory and in the oracle. Nor are their charges settled any more. */
  private forget(names: readonly string[]): { name: string; key: string }[] {
    const forgotten = names.map((name) => ({ name, key: this.key }));
    this.memory.reset(forgotten);
    for (const name of names) this.oracle.forget(name);
    for (const { memory, redis } of this.booked.flatMap(({ parts }) => parts)) {
      if (names.includes(memory.name)) memory.receipt = redis.receipt = undefined;
    }
    return forgotten;
  }

  private parts(each: TrioStep): Part[] {
    const some = this.layers.filter((_, index) => (each.applies >> index) % 2 === 1);
    return (some.length > 0 ? some : this.layers.slice(0, 1)).map((layer, index): Part => {
      const { name, shadow } = layer;
      const { rule, terms } = this.pairOf(layer, each);
      const remaining = this.announced.get(name)?.remaining ?? rule.quota;
      const units = unitsOf({ ...each, cost: each.costs[index] ?? 'one' }, rule.quota, remaining);
      const most = rule.holdsSlots ? 1 : rule.overdraws ? units : MOST_LOGGED;
      const cost = Math.min(units, most);
      const { key } = this;
      const charge = (): Charge => ({ name, key, rule, cost, shadow, receipt: undefined });
      const ask = { key: name, terms, cost, shadow, offset: rule.offset(key) };
      return { memory: charge(), redis: charge(), ask };
    });
  }

  private pairOf({ pairs }: Layer, { policy }: Step): Pair {
    // There is at least one.
    return pairs[policy % pairs.length] as Pair;
  }

  private tell(what: string, parts: readonly Part[]): void {
    const units = parts.map(
      ({ memory: { name, cost, rule } }) =>
        `${name}: ${cost} by ${this.layers.find((layer) => layer.name === name)?.pairs.findIndex((pair) => pair.rule === rule)}`,
    );
    this.lines.push(`at ${this.now()} ${what} ${units.join(', ')}`);
  }
}

/** Trios that share a clock and a store, so that what happens to them at one instant goes to Redis together. */
export class Band {
  now: number;
  private readonly redis: RedisStore;
  private readonly trios: readonly Trio[];

  /**
   * @param connect makes the store for this band's clock.
   * @param keys for each key its limits.
   */
  constructor(
    name: string,
    start: number,
    keys: readonly (readonly Layer[])[],
    connect: (clock: () => number) => RedisStore,
  ) {
    this.now = start;
    const clock = (): number => this.now;
    this.redis = connect(clock);
    this.trios = keys.map(
      (layers, index) => new Trio(`${name} ${index}`, layers, this.redis, clock),
    );
  }

  get size(): number {
    return this.trios.length;
  }

  /** Has one of the trios move the clock, and all of them take a step. */
  async step(steps: readonly TrioStep[]): Promise<void> {
    const [first] = steps as [TrioStep];
    const mover = this.trios[first.amount % this.size] as Trio;
    const to = mover.wish(first);
    if (to < this.now) await this.forgetWhole(1);
    this.now = to;
    await this.forgetWhole(2);
    await Promise.all(this.trios.map((trio, index) => trio.step(steps[index] as TrioStep)));
  }

  async close(): Promise<void> {
    await this.redis.close();
  }

  private async forgetWhole(policies: number): Promise<void> {
    const forgotten = this.trios.flatMap((trio) => trio.forgetWhole(policies));
    if (forgotten.length > 0) await this.redis.reset(forgotten);
  }
}
