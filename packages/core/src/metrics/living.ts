import type { DecisionEvent } from '../events.ts';
import type { Sample } from './series.ts';

type Limiter = DecisionEvent['limiter'];
type Store = Limiter['store'];
type State = ReturnType<NonNullable<Store['health']>>['store'];

const STATES: readonly State[] = ['up', 'probing', 'down'];

/** The limiters that decided something and are not closed. They are not kept alive. */
export class Living {
  private readonly known = new WeakSet<Limiter>();
  private refs: WeakRef<Limiter>[] = [];

  add(limiter: Limiter): void {
    if (this.known.has(limiter)) return;
    this.known.add(limiter);
    this.refs.push(new WeakRef(limiter));
  }

  /** The state of each store that may fail, by name; of several of one name that of the worst. */
  states(nameOf: (store: Store) => string): Sample[] {
    const worst = new Map<string, State>();
    for (const store of this.stores()) {
      if (store.health === undefined) continue;
      const name = nameOf(store);
      const { store: state } = store.health();
      const other = worst.get(name) ?? 'up';
      worst.set(name, STATES.indexOf(state) > STATES.indexOf(other) ? state : other);
    }
    return [...worst].flatMap(([store, is]) =>
      STATES.map((state) => ({ labels: { store, state }, value: state === is ? 1 : 0 })),
    );
  }

  /** How many keys memory stores hold; nothing where there is none. */
  keys(): Sample[] {
    let value: number | undefined;
    for (const store of this.stores()) {
      // The memory store of whichever copy of this package.
      const { size } = store as { readonly size?: unknown };
      if (!store.async && typeof size === 'number') value = (value ?? 0) + size;
    }
    return value === undefined ? [] : [{ labels: {}, value }];
  }

  private stores(): Set<Store> {
    const stores = new Set<Store>();
    this.refs = this.refs.filter((ref) => {
      const limiter = ref.deref();
      if (limiter === undefined || limiter.isClosed) return false;
      stores.add(limiter.store);
      return true;
    });
    return stores;
  }
}
