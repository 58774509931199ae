import { TollgateConfigError } from './errors.ts';
import type { Policy } from './policy.ts';
import type { Store } from './store.ts';

interface Tenancy {
  tenants: number;
  /** The fixed policy that each name means, as text, and how many limiters mean it. */
  readonly names: Map<string, { readonly policy: string; users: number }>;
}

const tenancies = new WeakMap<Store, Tenancy>();

/**
 * A limiter's stay on a store object. Limits of one name share a budget there, so all limiters must mean one policy
 * by it.
 */
export class Tenant {
  private readonly tenancy: Tenancy;
  private readonly own: string[] = [];

  constructor(store: Store) {
    this.tenancy = tenancies.get(store) ?? { tenants: 0, names: new Map() };
    this.tenancy.tenants++;
    tenancies.set(store, this.tenancy);
  }

  /** @throws TollgateConfigError when another limiter on the store means another policy by the name. */
  add(name: string, policy: Policy, path: string): void {
    const text = JSON.stringify(policy);
    const known = this.tenancy.names.get(name);
    if (known !== undefined && known.policy !== text) {
      throw new TollgateConfigError(
        path,
        `another limiter on this store means ${known.policy} by the name "${name}"; use another name, another store, or the same policy`,
      );
    }
    if (known === undefined) this.tenancy.names.set(name, { policy: text, users: 1 });
    else known.users++;
    this.own.push(name);
  }

  /** Returns whether the store has no tenant left. */
  leave(): boolean {
    for (const name of this.own) {
      const known = this.tenancy.names.get(name);
      if (known !== undefined && --known.users === 0) this.tenancy.names.delete(name);
    }
    return --this.tenancy.tenants === 0;
  }
}
