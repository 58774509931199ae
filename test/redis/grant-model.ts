import type { Receipt, Rule, State } from '../../packages/core/src/algorithm.ts';
import { ruleOf } from '../../packages/core/src/algorithms/index.ts';
import { type BanState, impose, rollBan } from '../../packages/core/src/ban.ts';
import { LeaseRule, Leasing } from '../../packages/core/src/lease.ts';
import { type Asked, grantOf, type Told } from '../../packages/core/src/redis/grant.ts';
import { Lease } from '../../packages/core/src/redis/lease.ts';
import type { Family } from '../../packages/core/test/exactness-policies.ts';

/** One key as TypeScript reckons it. */
export class Model {
  readonly leases: readonly Lease[];
  readonly key: string;
  private readonly holders = new Map<number, number>();
  private stored: State | undefined;
  private readonly bans: BanState = [0, 0, 0, 0, 0];

  constructor(name: string, family: Family, time: number) {
    this.key = name;
    const leasing = new Leasing({}, 'lease');
    this.leases = family.map((policy) => {
      const own = ruleOf(policy);
      const rule = own.ahead?.(time) ?? own;
      const terms = new LeaseRule(leasing, rule, 0.1, 0, time);
      return new Lease({ name: 'a', key: name, storeKey: name }, terms, 0);
    });
  }

  grant(rule: Rule, asked: Asked, holder: number, time: number, now: number, slot: number): Told {
    const { state, healed } = this.view(rule, now);
    rollBan(this.bans, now);
    const banned = Math.max(0, this.bans[0] - now);
    const free = banned > 0 ? 0 : rule.remaining(state, now);
    const units = grantOf(free, asked, () => this.countHolders(holder, time, now));
    if (units > 0) rule.add(state, units, now, slot, rule.offset(this.key));
    if (units > 0 || healed) this.stored = state;
    return { units, free, banned, at: now, state: [...state] };
  }

  charge(rule: Rule, units: number, now: number, slot: number): Receipt {
    const { state } = this.view(rule, now);
    const receipt = rule.add(state, units, now, slot, rule.offset(this.key));
    this.stored = state;
    return receipt;
  }

  refund(rule: Rule, units: number, now: number): void {
    if (this.stored === undefined) return;
    const { state } = this.view(rule, now);
    rule.refund(state, units, now);
    this.stored = state;
  }

  giveBack(rule: Rule, units: number, now: number, receipt: Receipt): void {
    if (this.stored === undefined) return;
    const { state, healed } = this.view(rule, now);
    if (rule.giveBack(state, units, now, receipt) || healed) this.stored = state;
  }

  ban(now: number, length: number): void {
    impose(this.bans, now, length);
  }

  private view(rule: Rule, now: number): { state: State; healed: boolean } {
    const state = [...(this.stored ?? Array.from({ length: rule.size ?? 0 }, () => 0))];
    return { state, healed: rule.roll(state, now, rule.offset(this.key)) };
  }

  private countHolders(holder: number, time: number, now: number): number {
    this.holders.set(holder, now);
    for (const [other, at] of this.holders) {
      if (at <= now - 2 * time) this.holders.delete(other);
    }
    return this.holders.size;
  }
}
