import { randomUUID } from 'node:crypto';
import { TWINS } from '../algorithms/index.ts';
import { type Verdict, verdictOf } from '../verdict.ts';
import type { Answer, Charge, Correction, Mode } from '../store.ts';
import type { Argument, Item, Reply } from './batch.ts';
import { NEVER, OPS } from './engine.ts';

const PLACES = new Map<string, number>(TWINS.map(([tag], index) => [tag, index + 1]));

/** Writes what the engine is asked, and reads what it answers. */
export class Items {
  /** Names this process's slots apart from all others'. */
  private readonly owner = randomUUID();
  private nextSlot = 1;
  private readonly slotNames = new WeakMap<Charge, string>();
  private readonly banOf: (key: string) => string;

  /** @param banOf names the key of the bans of what a key is the name of. */
  constructor(banOf: (key: string) => string) {
    this.banOf = banOf;
  }

  decision(charges: readonly Charge[], keys: readonly string[], mode: Mode): Item<Answer> {
    return {
      keys: this.withBans(keys),
      needed: keys.length,
      write: (places, args) => this.write(OPS[mode], charges.map(atCost), places, args),
      read: (reply) => readAnswer(charges, reply),
    };
  }

  /** Corrections, or refunds, of charges whose keys are `keys`. */
  changes(
    op: 'correct' | 'refund',
    corrections: readonly Correction[],
    keys: readonly string[],
  ): Item<void> {
    return {
      keys,
      write: (places, args) => this.write(OPS[op], corrections, places, args),
      read: () => undefined,
    };
  }

  /** Gives back what charges took, and tells how their keys are then. */
  undoing(charges: readonly Charge[], keys: readonly string[]): Item<Answer> {
    return {
      keys: this.withBans(keys),
      needed: keys.length,
      write: (places, args) => {
        const back = charges.map((charge) => ({ charge, units: -charge.cost }));
        this.write(OPS.correct, back, places, args);
        this.write(OPS.peek, charges.map(atCost), places, args);
      },
      read: (reply) => readAnswer(charges, reply),
    };
  }

  renewal(charges: readonly Charge[], keys: readonly string[]): Item<boolean[]> {
    return {
      keys,
      write: (places, args) => this.write(OPS.renew, charges.map(atCost), places, args),
      read: (reply) => charges.map(() => reply.next() === 1),
    };
  }

  /** Refuses what the keys of bans are of for `length` µs. */
  ban(keys: readonly string[], length: number): Item<void> {
    return {
      keys,
      write: (places, args) => {
        args.push(OPS.ban, places.length);
        for (const place of places) args.push(place, length);
      },
      read: () => undefined,
    };
  }

  /** The keys of charges, and behind them those of their bans. */
  private withBans(keys: readonly string[]): string[] {
    return [...keys, ...keys.map(this.banOf)];
  }

  private write(
    op: number,
    items: readonly Correction[],
    places: readonly number[],
    args: Argument[],
  ): void {
    args.push(op, items.length);
    for (let i = 0; i < items.length; i++) {
      const { charge, units } = items[i] as Correction;
      const { rule, key, shadow, ban, receipt = [] } = charge;
      args.push(
        places[i] as number,
        places[items.length + i] ?? 0,
        PLACES.get(rule.policy.algorithm) as number,
        rule.offset(key),
        units,
        shadow ? 1 : 0,
        rule.holdsSlots ? this.slotName(charge) : chargeName(),
        receipt.length,
      );
      for (const number of receipt) args.push(number);
      for (const number of rule.numbers) args.push(number);
      const strikes = op === OPS.consume && ban !== undefined;
      args.push(strikes ? 1 : 0);
      if (strikes) for (const number of ban.numbers) args.push(number);
    }
  }

  private slotName(charge: Charge): string {
    const known = this.slotNames.get(charge);
    if (known !== undefined) return known;
    const name = `${this.owner}:${this.nextSlot++}`;
    this.slotNames.set(charge, name);
    return name;
  }
}

/** Names a charge apart from the few others of its key that may still be settled; short, since every key keeps one. */
function chargeName(): number {
  return 1 + Math.floor(Math.random() * 2 ** 29);
}

export function atCost(charge: Charge): Correction {
  return { charge, units: charge.cost };
}

function readAnswer(charges: readonly Charge[], reply: Reply): Answer {
  const admitted = reply.next() === 1;
  const delay = reply.next();
  const verdicts = charges.map((charge) => readVerdict(charge, reply));
  return { admitted, delay, at: reply.at, verdicts };
}

function readVerdict(charge: Charge, reply: Reply): Verdict {
  const wait = duration(reply.next());
  const remaining = reply.next();
  const nextAfter = duration(reply.next());
  const resetAfter = duration(reply.next());
  const banned = reply.next();
  const numbers = reply.next();
  if (numbers > 0) charge.receipt = Array.from({ length: numbers }, () => reply.next());
  return verdictOf(charge, { wait, remaining, nextAfter, resetAfter }, banned);
}

function duration(number: number): number {
  return number === NEVER ? Infinity : number;
}
