import { strict as assert } from 'node:assert';
import type { Rule } from '../algorithm.ts';
import { ruleOf } from '../algorithms/index.ts';
import type { Policy } from '../policy.ts';
import type { Answer, Charge, Mode, Store } from '../store.ts';
import type { MemoryStore } from '../stores/memory.ts';
import type { Random } from './random.ts';
import { chargeOf, type Trial } from './trial.ts';

/** One limit of a history: policies of one algorithm that take turns. */
export interface Layer {
  readonly name: string;
  readonly policies: readonly Policy[];
  readonly shadow: boolean;
}

/** A charge as each of the two stores got it. */
interface Pair {
  readonly twin: Charge;
  readonly own: Charge;
}

type Which = keyof Pair;

/** The same call on either store. */
type Call = (store: Store, which: Which) => Promise<unknown>;

const DEEDS = [
  'consume',
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
] as const;

const SECOND_US = 1_000_000;
const YEAR_US = 365 * 86_400 * SECOND_US;
/** Steps that are told where two answers differ. */
const TOLD = 12;

/** One key and its limits. */
class Track {
  readonly key: string;
  readonly layers: readonly (Layer & { readonly rules: readonly Rule[] })[];
  /** The charges of decisions that are not settled yet. */
  held: Pair[] = [];
  /** Instants at which something was said to change, in microseconds since the epoch. */
  announced: readonly number[] = [];
  /** What has happened, to be told where two answers differ. */
  readonly lines: string[] = [];
  remaining = 0;

  constructor(key: string, layers: readonly Layer[]) {
    this.key = key;
    this.layers = layers.map((layer) => ({ ...layer, rules: layer.policies.map(ruleOf) }));
  }

  /** Charges under all of the limits, or all but one, by one policy each. */
  charges(random: Random): Pair[] {
    const without = this.layers.length > 1 ? random.upTo(2 * this.layers.length) : -1;
    return this.layers.flatMap(({ name, shadow, rules }, index): Pair[] => {
      if (index === without) return [];
      const rule = random.from(rules);
      const cost = rule.holdsSlots ? random.from([1, 1, 1, 0]) : this.cost(rule, random);
      const make = (): Charge => chargeOf(rule, cost, { name, key: this.key, shadow });
      return [{ twin: make(), own: make() }];
    });
  }

  private cost({ quota, overdraws }: Rule, random: Random): number {
    const small = random.from([0, 1, 1, 1, 2, 3, random.upTo(9)]);
    const telling = random.from([this.remaining, this.remaining + 1, quota, quota + 1]);
    const cost = random.from([small, small, telling]);
    return overdraws ? cost : Math.min(cost, 50);
  }
}

/** Random steps of several keys side by side, in the store on trial and in memory. */
export class History {
  private readonly trial: Trial;
  private readonly twin: MemoryStore;
  private readonly random: Random;
  private readonly name: string;
  private readonly tracks: Track[] = [];

  constructor(trial: Trial, twin: MemoryStore, random: Random, name: string) {
    this.trial = trial;
    this.twin = twin;
    this.random = random;
    this.name = name;
  }

  addKey(layers: readonly Layer[]): void {
    this.tracks.push(new Track(`${this.name}, key ${this.tracks.length}`, layers));
  }

  /** Moves the clock, then has something happen to every key at once. */
  async step(): Promise<void> {
    const { clock } = this.trial;
    const to = Math.max(0, clock() + this.random.from(this.moves()));
    if (to < clock()) await this.forget(1);
    clock.set(to / 1_000);
    await this.forget(2);
    await Promise.all(this.tracks.map((track) => this.happen(track)));
  }

  private moves(): number[] {
    const { random } = this;
    const { announced } = random.from(this.tracks);
    const told = announced.length > 0 ? random.from(announced) - this.trial.clock() : 0;
    const any = random.upTo(3 * SECOND_US);
    const huge = random.upTo(9) === 0 ? [YEAR_US, -YEAR_US] : [];
    return [0, 0, 1, 1_000, told, told, told - 1, told + 1, any, any, -1, -any, ...huge];
  }

  /**
   * Forgets keys in both stores that are whole by one of at least so many policies. A store may forget a key that is
   * whole whenever it likes, which shows only once the clock steps back, or by a policy under which it is not.
   */
  private async forget(policies: number): Promise<void> {
    const forgotten: { name: string; key: string }[] = [];
    for (const track of this.tracks) {
      for (const { name, rules } of track.layers) {
        const whole = rules.some((rule) => {
          const charge = chargeOf(rule, 0, { name, key: track.key });
          return this.twin.decide([charge], 'peek').verdicts[0]?.resetAfterMs === 0;
        });
        if (!whole || rules.length < policies) continue;
        forgotten.push({ name, key: track.key });
        track.held = track.held.filter(({ own }) => own.name !== name);
      }
    }
    if (forgotten.length === 0) return;
    this.twin.reset(forgotten);
    await this.trial.store.reset(forgotten);
  }

  private async happen(track: Track): Promise<void> {
    const deed = this.random.from(DEEDS);
    if (deed === 'consume' || deed === 'peek' || deed === 'charge') {
      return this.decide(track, deed);
    }
    if (deed === 'renew') {
      const slots = track.held.filter(({ own }) => own.rule.holdsSlots);
      if (slots.length === 0) return;
      const told = `renew ${slots.length} slots`;
      return this.both(track, told, (store, which) =>
        Promise.resolve(store.renew(slots.map((pair) => pair[which]))),
      );
    }
    if (deed === 'settle') return this.settle(track);
    const pairs = track.charges(this.random);
    const told = `${deed} ${shown(pairs)}`;
    if (deed === 'reset') {
      const names = pairs.map(({ own }) => own.name);
      track.held = track.held.filter(({ own }) => !names.includes(own.name));
      return this.both(track, told, async (store, which) =>
        store.reset(pairs.map((pair) => pair[which])),
      );
    }
    return this.both(track, told, async (store, which) =>
      store.refund(pairs.map((pair) => pair[which])),
    );
  }

  private async decide(track: Track, mode: Mode): Promise<void> {
    const pairs = track.charges(this.random);
    let told: Answer | undefined;
    await this.both(track, `${mode} ${shown(pairs)}`, async (store, which) => {
      const charges = pairs.map((pair) => pair[which]);
      const answer = await store.decide(charges, mode);
      told = answer;
      const { admitted, at, delay, verdicts } = answer;
      const receipts = charges.map(({ receipt }) => receipt !== undefined);
      return { admitted, at, delay, verdicts: [...verdicts], receipts };
    });
    const { verdicts = [] } = told ?? {};
    track.announced = verdicts
      .flatMap(({ retryAfterMs, nextAfterMs, resetAfterMs }) => [
        retryAfterMs,
        nextAfterMs,
        resetAfterMs,
      ])
      .filter((ms) => ms < Infinity)
      .map((ms) => this.trial.clock() + Math.round(ms * 1_000));
    track.remaining = verdicts[0]?.remaining ?? 0;
    track.held.push(...pairs.filter(({ twin }) => twin.receipt !== undefined));
  }

  /** Settles a charge: mostly for less, now and then for more. */
  private async settle(track: Track): Promise<void> {
    const { random } = this;
    const [pair] = track.held.splice(random.upTo(track.held.length), 1);
    if (pair === undefined) return;
    const { cost, rule } = pair.own;
    const back = -Math.min(cost, 1 + random.upTo(cost));
    const units = rule.holdsSlots ? -1 : random.from([-cost, back, back, 1 + random.upTo(3)]);
    return this.both(track, `settle ${shown([pair])} by ${units}`, async (store, which) =>
      store.correct([{ charge: pair[which], units }]),
    );
  }

  /** Makes a call on both stores and compares what they answer. */
  private async both(track: Track, told: string, call: Call): Promise<void> {
    track.lines.push(`at ${this.trial.clock()} µs: ${told}`);
    const expected = await call(this.twin, 'twin');
    const answer = await call(this.trial.store, 'own');
    try {
      assert.deepEqual(answer, expected);
    } catch (error) {
      const lines = [track.key, ...track.lines.slice(-TOLD), String(error)];
      throw new assert.AssertionError({ message: lines.join('\n'), actual: answer, expected });
    }
  }
}

function shown(pairs: readonly Pair[]): string {
  return pairs
    .map(({ own: { name, cost, rule } }) => `${name}: ${cost} under ${JSON.stringify(rule.policy)}`)
    .join(', ');
}
