import type { State } from '../algorithm.ts';
import { SingleAnswer, verdictFrom } from '../answer.ts';
import type { Answer, Charge, Mode } from '../store.ts';
import { type Verdict, verdictOf } from '../verdict.ts';
import type { Item } from './group.ts';
import { chargeName, type ChargeWriter } from './charge-writer.ts';
import { OPS } from './ops.ts';
import type { Reply } from './reply.ts';
import type { ScriptCall } from './script-call.ts';

/** Charges of one mode, whose keys are `keys`. */
abstract class ChargesItem<T> implements Item<T> {
  readonly keys: readonly string[];
  readonly charges: readonly Charge[];
  readonly mode: Mode;
  protected readonly writer: ChargeWriter;

  constructor(
    charges: readonly Charge[],
    keys: readonly string[],
    mode: Mode,
    writer: ChargeWriter,
  ) {
    this.charges = charges;
    this.keys = keys;
    this.mode = mode;
    this.writer = writer;
  }

  abstract write(call: ScriptCall): void;
  abstract read(reply: Reply): T;
}

/** A decision: all its charges or none. */
export class DecisionItem extends ChargesItem<Answer> {
  write(call: ScriptCall): void {
    const { charges, keys, mode } = this;
    call.tell(OPS[mode], charges.length);
    for (let i = 0; i < charges.length; i++) {
      this.writer.decision(call, charges[i] as Charge, keys[i] as string, mode);
    }
  }

  read(reply: Reply): Answer {
    return readAnswer(this.charges, this.mode, reply);
  }

  /** Single charges that are the same, and whose refusals nobody counts. */
  isLike(other: Item<unknown>): boolean {
    if (!(other instanceof DecisionItem) || other.mode !== this.mode) return false;
    const [own, its] = [this.single(), other.single()];
    if (own === undefined || its === undefined) return false;
    return own.rule === its.rule && own.cost === its.cost && this.keys[0] === other.keys[0];
  }

  fold(alike: readonly Item<Answer>[]): Item<readonly Answer[]> {
    const charges = alike.map((item) => (item as DecisionItem).charges[0] as Charge);
    return new FoldItem(charges, this.keys, this.mode, this.writer);
  }

  private single(): Charge | undefined {
    const [charge] = this.charges;
    if (this.charges.length !== 1 || charge === undefined) return undefined;
    const isTaking =
      this.mode === 'attempt' || (this.mode === 'consume' && charge.ban === undefined);
    return isTaking && charge.rule.size !== undefined && !charge.shadow ? charge : undefined;
  }
}

/**
 * Decisions of one charge each that are all the same. Redis says how many are admitted, from the first on, and from
 * which state; what each of them leaves behind is reckoned here, by the same rule.
 */
class FoldItem extends ChargesItem<readonly Answer[]> {
  /** One for all, which are made at one instant. */
  private readonly name = chargeName();

  write(call: ScriptCall): void {
    const { charges, keys, mode, name } = this;
    call.tell(OPS.fold, charges.length);
    this.writer.decision(call, charges[0] as Charge, keys[0] as string, mode, name);
  }

  read(reply: Reply): readonly Answer[] {
    const [{ rule, key, cost }] = this.charges as readonly [Charge];
    const { at } = reply;
    const banned = reply.next();
    const admitted = reply.next();
    const state = reply.take(rule.size ?? 0);
    const offset = rule.offset(key);
    return this.charges.map((charge, index) => {
      if (index >= admitted) return new SingleAnswer(charge, state, false, false, 0, at, banned);
      const delay = rule.queues ? rule.delay(state, at) : 0;
      if (cost > 0) charge.receipt = rule.add(state, cost, at, this.name, offset);
      return new SingleAnswer(charge, charge.receipt ?? state, true, true, delay, at, banned);
    });
  }
}

/** Reads what was decided of charges. */
export function readAnswer(charges: readonly Charge[], mode: Mode, reply: Reply): Answer {
  const { at } = reply;
  const admitted = reply.next() === 1;
  const delay = reply.next();
  const [only] = charges;
  if (charges.length === 1 && only?.rule.size !== undefined) {
    const { banned, taken, state } = readState(only, only.rule.size, mode, reply);
    return new SingleAnswer(only, state, admitted, taken, delay, at, banned);
  }
  return {
    admitted,
    delay,
    at,
    verdicts: charges.map((charge) => readVerdict(charge, mode, reply)),
  };
}

function readVerdict(charge: Charge, mode: Mode, reply: Reply): Verdict {
  const { rule, cost } = charge;
  if (rule.size === undefined) return readStanding(charge, reply);
  const { banned, taken, state } = readState(charge, rule.size, mode, reply);
  const wait = taken ? 0 : rule.wait(state, cost, reply.at);
  return verdictFrom(charge, state, reply.at, wait, banned);
}

/** How a key stands whose state is told whole, and whether the charge was made, or would have been whatever is owed. */
function readState(
  charge: Charge,
  size: number,
  mode: Mode,
  reply: Reply,
): { readonly banned: number; readonly taken: boolean; readonly state: State } {
  const banned = reply.next();
  const charged = reply.next() === 1;
  const state = reply.take(size);
  if (charged) charge.receipt = state;
  return { banned, taken: charged || (mode === 'charge' && charge.rule.overdraws), state };
}

/** How a key stands whose state Redis keeps to itself. */
function readStanding(charge: Charge, reply: Reply): Verdict {
  const banned = reply.next();
  const charged = reply.next() === 1;
  const wait = reply.next();
  const remaining = reply.next();
  const nextAfter = reply.next();
  const resetAfter = reply.next();
  if (charged) charge.receipt = [reply.at];
  return verdictOf(charge, { wait, remaining, nextAfter, resetAfter }, banned);
}
