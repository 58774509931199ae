import type { Limiter, Policy, RefusedKey } from '@tollgate/core';
import type { Traffic } from './traffic.ts';

/** What the page shows: a gate of either adapter, or anything else that has a limiter. */
export interface WatchedGate {
  readonly limiter: Limiter;
}

/** The most refused keys of each limit, and whose count they are. */
export interface MostRefused {
  readonly scope: 'process' | 'fleet';
  /** Why the fleet's list could not be had, where there is one. */
  readonly error: unknown;
  readonly keys: readonly RefusedKey[];
}

/** Keys of each limit. */
const LISTED = 25;
/** How long a list of the fleet is good for, however many pages are open. */
const FRESH_MS = 2_000;

/** A limiter under watch: what it decided, and who was refused most. */
export class Watched {
  readonly limiter: Limiter;
  readonly traffic: Traffic;
  private fleet: { readonly atMs: number; readonly list: Promise<MostRefused> } | undefined;

  constructor(limiter: Limiter, traffic: Traffic) {
    this.limiter = limiter;
    this.traffic = traffic;
  }

  /** Of the fleet where the store keeps that; of this process elsewhere, and while the store does not answer. */
  mostRefused(): Promise<MostRefused> {
    if (this.limiter.store.mostRefused === undefined) return Promise.resolve(this.own(undefined));
    const now = performance.now();
    if (this.fleet === undefined || now - this.fleet.atMs >= FRESH_MS) {
      this.fleet = { atMs: now, list: this.ofFleet() };
    }
    return this.fleet.list;
  }

  /** The policy to look a key up by, where requests bring their own. */
  policyFor(name: string, key: string): Policy | undefined {
    const limit = this.traffic.of(name);
    return limit.policyOf(key) ?? (limit.policies.length === 1 ? limit.policies[0] : undefined);
  }

  private async ofFleet(): Promise<MostRefused> {
    try {
      const keys = await this.limiter.mostRefused(undefined, { count: LISTED, fleet: true });
      return { scope: 'fleet', error: undefined, keys };
    } catch (error) {
      return this.own(error);
    }
  }

  private own(error: unknown): MostRefused {
    return {
      scope: 'process',
      error,
      keys: this.limiter.mostRefused(undefined, { count: LISTED }),
    };
  }
}
