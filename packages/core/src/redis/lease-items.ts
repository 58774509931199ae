import type { Receipt } from '../algorithm.ts';
import type { Charge, Correction } from '../store.ts';
import type { Item } from './group.ts';
import { OPS } from './ops.ts';
import type { Told } from './grant.ts';
import type { Items } from './items.ts';
import type { Ask, Draw, Lease } from './lease.ts';

/** Holders of leases are remembered for so many times as long as a lease lasts. */
const REMEMBERED = 2;

/** Who asks for units, and where it is noted that they do. */
export interface Holder {
  /** Names this process apart from others. */
  readonly id: number;
  readonly storeKey: string;
}

/** Gives back what ran out, and asks for units. */
export function grantItem(items: Items, lease: Lease, ask: Ask, holder: Holder): Item<Told> {
  const { storeKey } = lease.of;
  const { costs, extra, back } = ask;
  return {
    keys: [storeKey],
    write: (call) => {
      if (back.length > 0) items.correct(call, back.map(correctionOf), keysOf(back));
      call.tell(OPS.grant, 1);
      items.writer.decision(call, chargeOf(lease), storeKey, 'attempt');
      // While a slot moves, what is not needed may be elsewhere.
      const holders = call.withBans && extra > 0 ? call.key(holder.storeKey) : 0;
      call.tell(holders, holder.id, REMEMBERED * lease.terms.time, costs.length);
      for (const [times, cost] of costs) call.tell(times, cost);
      call.tell(extra);
    },
    read: (reply) => ({
      units: reply.next(),
      free: reply.next(),
      banned: reply.next(),
      at: reply.at,
      state: reply.take(lease.terms.rule.size ?? 0),
    }),
  };
}

/** Gives back units that a lease has not spent. */
export function returnItem(items: Items, draw: Draw): Item<void> {
  return items.corrections([correctionOf(draw)], keysOf([draw]));
}

/** Charges what a lease owes, whatever is free. */
export function debtItem(items: Items, lease: Lease): Item<void> {
  return items.corrections([{ charge: chargeOf(lease), units: lease.debt }], [lease.of.storeKey]);
}

function keysOf(draws: readonly Draw[]): string[] {
  return draws.map(({ lease }) => lease.of.storeKey);
}

function correctionOf({ lease, units, receipt }: Draw): Correction {
  return { charge: chargeOf(lease, receipt), units: -units };
}

function chargeOf({ of: { name, key }, terms: { rule } }: Lease, receipt?: Receipt): Charge {
  return { name, key, rule, cost: 0, shadow: false, receipt };
}
