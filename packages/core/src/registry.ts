import { TollgateConfigError } from './errors.ts';
import type { Policy } from './policy.ts';
import type { Store } from './store.ts';

interface Tenancy {
  tenants: number;
  /** The fixed policies that each name means, as text, and how many limiters mean each: more than one after an update. */
  readonly names: Map<string, Map<string, number>>;
}

const tenancies = new WeakMap<Store, Tenancy>();

/**
 * A limiter's stay on a store object. Limits of one name share a budget there, so all limiters must mean one policy
 * by it.
 */
export class Tenant {
  private readonly tenancy: Tenancy;
  private readonly own = new Map<string, string>();

  constructor(store: Store) {
    this.tenancy = tenancies.get(store) ?? { tenants: 0, names: new Map() };
    this.tenancy.tenants++;
    tenancies.set(store, this.tenancy);
  }

  /** @throws TollgateConfigError when another limiter on the store means another policy by the name. */
  add(name: string, policy: Policy, path: string): void {
    const text = JSON.stringify(policy);
    const meant = this.tenancy.names.get(name);
    if (meant !== undefined && !meant.has(text)) {
      throw new TollgateConfigError(
        path,
        `another limiter on this store means ${[...meant.keys()].join(' or ')} by the name "${name}"; use another name, another store, or the same policy`,
      );
    }
    this.mean(name, text);
  }

  /** Means another policy by a name from now on. */
  replace(name: string, policy: Policy): void {
    this.unmean(name);
    this.mean(name, JSON.stringify(policy));
  }

  /** Returns whether the store has no tenant left. */
  leave(): boolean {
    for (const name of this.own.keys()) this.unmean(name);
    return --this.tenancy.tenants === 0;
  }

  private mean(name: string, text: string): void {
    const meant = this.tenancy.names.get(name) ?? new Map<string, number>();
    this.tenancy.names.set(name, meant.set(text, (meant.get(text) ?? 0) + 1));
    this.own.set(name, text);
  }

  private unmean(name: string): void {
    const text = this.own.get(name);
    const meant = this.tenancy.names.get(name);
    if (text === undefined || meant === undefined) return;
    const users = (meant.get(text) ?? 1) - 1;
    if (users > 0) meant.set(text, users);
    else meant.delete(text);
    if (meant.size === 0) this.tenancy.names.delete(name);
    this.own.delete(name);
  }
}
