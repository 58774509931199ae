import type { Answer, Charge, Correction, Mode } from '../store.ts';
import type { Item } from './group.ts';
import { ChargeWriter } from './charge-writer.ts';
import { DecisionItem, readAnswer } from './decisions.ts';
import { OPS } from './ops.ts';
import type { ScriptCall } from './script-call.ts';

/** All that the script can be asked. */
export class Items {
  /** For items that are made elsewhere. */
  readonly writer: ChargeWriter;

  /** @param banOf names the key of the bans of what a key is the name of. */
  constructor(banOf: (key: string) => string) {
    this.writer = new ChargeWriter(banOf);
  }

  decision(charges: readonly Charge[], keys: readonly string[], mode: Mode): Item<Answer> {
    return new DecisionItem(charges, keys, mode, this.writer);
  }

  /** Corrections of charges whose keys are `keys`. */
  corrections(corrections: readonly Correction[], keys: readonly string[]): Item<void> {
    return {
      keys,
      write: (call) => this.correct(call, corrections, keys),
      read: () => undefined,
    };
  }

  /** Takes what charges cost off what their keys owe. */
  refund(charges: readonly Charge[], keys: readonly string[]): Item<void> {
    return {
      keys,
      write: (call) => this.change(call, OPS.refund, charges, keys),
      read: () => undefined,
    };
  }

  /** Gives back what charges took, and tells how their keys are then. */
  undoing(charges: readonly Charge[], keys: readonly string[]): Item<Answer> {
    const back = charges.map((charge) => ({ charge, units: -charge.cost }));
    const peek = new DecisionItem(charges, keys, 'peek', this.writer);
    return {
      keys,
      write: (call) => {
        this.correct(call, back, keys);
        peek.write(call);
      },
      read: (reply) => readAnswer(charges, 'peek', reply),
    };
  }

  /** Renews the slots that charges hold. */
  renewal(charges: readonly Charge[], keys: readonly string[]): Item<boolean[]> {
    return {
      keys,
      write: (call) => this.change(call, OPS.renew, charges, keys),
      read: (reply) => charges.map(() => reply.next() === 1),
    };
  }

  /** Refuses what the keys of bans are of for `length` µs. */
  ban(keys: readonly string[], length: number): Item<void> {
    return {
      keys,
      write: (call) => {
        call.imposesBans();
        call.tell(OPS.ban, keys.length);
        for (const key of keys) call.tell(call.banKey(key), length);
      },
      read: () => undefined,
    };
  }

  /** Writes corrections of charges whose keys are `keys`. */
  correct(call: ScriptCall, corrections: readonly Correction[], keys: readonly string[]): void {
    call.tell(OPS.correct, corrections.length);
    for (const [index, { charge, units }] of corrections.entries()) {
      const { receipt = [] } = charge;
      this.writer.change(call, charge, keys[index] as string, units);
      call.tell(receipt.length, ...receipt);
    }
  }

  private change(
    call: ScriptCall,
    op: number,
    charges: readonly Charge[],
    keys: readonly string[],
  ): void {
    call.tell(op, charges.length);
    for (const [index, charge] of charges.entries()) {
      this.writer.change(call, charge, keys[index] as string, charge.cost);
    }
  }
}
