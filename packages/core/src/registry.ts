import { TollgateConfigError } from './errors.ts';
import type { Policy } from './policy.ts';
import type { Store } from './store.ts';

interface Named {
  readonly policy: string;
  users: number;
}

interface Tenancy {
  limiters: number;
  readonly names: Map<string, Named>;
}

/** Which limiters live on a store object, and the fixed policy that each name means there. */
const tenancies = new WeakMap<Store, Tenancy>();

export interface NamedPolicy {
  readonly name: string;
  readonly policy: Policy | undefined;
}

/**
 * Enters a limiter's fixed policies for a store. Limits of one name share a budget, so they must mean one policy.
 *
 * @returns a function that takes the limiter out again and says whether it was the store's last.
 * @throws TollgateConfigError when another limiter on the store means another policy by a name.
 */
export function enter(store: Store, limits: readonly NamedPolicy[], path: string): () => boolean {
  const tenancy = tenancies.get(store) ?? { limiters: 0, names: new Map<string, Named>() };
  const fixed = limits.flatMap(({ name, policy }, index) =>
    policy === undefined ? [] : [{ name, index, policy: JSON.stringify(policy) }],
  );
  for (const { name, index, policy } of fixed) {
    const other = tenancy.names.get(name);
    if (other !== undefined && other.policy !== policy) {
      throw new TollgateConfigError(
        `${path}[${index}].policy`,
        `another limiter on this store means ${other.policy} by the name "${name}"; use another name, another store, or the same policy`,
      );
    }
  }
  for (const { name, policy } of fixed) {
    const named = tenancy.names.get(name);
    if (named === undefined) tenancy.names.set(name, { policy, users: 1 });
    else named.users++;
  }
  tenancy.limiters++;
  tenancies.set(store, tenancy);
  return () => {
    for (const { name } of fixed) {
      const named = tenancy.names.get(name);
      if (named !== undefined && --named.users === 0) tenancy.names.delete(name);
    }
    return --tenancy.limiters === 0;
  };
}
