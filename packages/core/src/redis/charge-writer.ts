import { randomUUID } from 'node:crypto';
import type { Charge, Mode } from '../store.ts';
import type { ScriptCall } from './script-call.ts';

/** Writes charges as the script reads them, and names them. */
export class ChargeWriter {
  /** Names this process's slots apart from all others'. */
  private readonly owner = randomUUID();
  private nextSlot = 1;
  private readonly slotNames = new WeakMap<Charge, string>();
  private readonly banOf: (key: string) => string;

  /** @param banOf names the key of the bans of what a key is the name of. */
  constructor(banOf: (key: string) => string) {
    this.banOf = banOf;
  }

  /** A charge to be decided. */
  decision(
    call: ScriptCall,
    charge: Charge,
    key: string,
    mode: Mode,
    name: number = this.nameOf(call, charge),
  ): void {
    const { rule, ban } = charge;
    const place = call.key(key);
    const bans = call.withBans ? call.banKey(this.banOf(key)) : 0;
    // While a slot moves nobody knows who is banned, and so nobody counts.
    const strikes = bans > 0 && ban !== undefined && mode === 'consume';
    const banRule = strikes ? call.banRule(ban) : 0;
    const shadow = charge.shadow ? 1 : 0;
    const offset = rule.offset(charge.key);
    call.tell(place, bans, call.rule(rule), banRule, offset, charge.cost, shadow, name);
  }

  /** A change of `units` to a charge. */
  change(call: ScriptCall, charge: Charge, key: string, units: number): void {
    const { rule } = charge;
    const offset = rule.offset(charge.key);
    call.tell(call.key(key), 0, call.rule(rule), 0, offset, units, 0, this.nameOf(call, charge));
  }

  private nameOf(call: ScriptCall, charge: Charge): number {
    return charge.rule.holdsSlots ? call.slot(this.slotName(charge)) : chargeName();
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
export function chargeName(): number {
  return 1 + Math.floor(Math.random() * 2 ** 29);
}
