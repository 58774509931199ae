import {
  createLimiter,
  type Decision,
  type Limiter,
  TollgateStoreError,
  tokenBucket,
  type WhenStoreFails,
} from '@tollgate/core';
import type { RedisStore } from '../../packages/core/src/redis/store.ts';
import { expect, onTestFinished } from 'vitest';
import type { Fault, Site } from './faults.ts';

export const DEADLINE_MS = 100;
/** What a busy machine may add to any time that is promised. */
export const SLACK_MS = 900;
/** How soon a store answers again that can: a second, and what a busy machine adds. */
const RECOVERY_MS = 1_000 + 2 * SLACK_MS;

/** So slow that no unit comes back during a test. */
const CAPACITY = 8;
const policy = tokenBucket({ capacity: CAPACITY, rate: 1, per: '1d' });

/** What a limit answers while its store cannot be asked. */
interface Expectation {
  readonly name: string;
  readonly whenStoreFails: WhenStoreFails;
  /** How many requests this process admits by itself. */
  readonly admits: number;
  readonly admitted: object;
  readonly refused: object;
}

const LOCAL = {
  admitted: { reason: 'ok', source: 'fallback', retryAfterMs: 0 },
  refused: { reason: 'limited', source: 'fallback', remaining: 0 },
};

export const EXPECTATIONS: readonly Expectation[] = [
  { name: 'local', whenStoreFails: 'local', admits: CAPACITY, ...LOCAL },
  // 0.3 of 8, rounded up.
  { name: 'share', whenStoreFails: { local: { share: 0.3 } }, admits: 3, ...LOCAL },
  {
    name: 'allow',
    whenStoreFails: 'allow',
    admits: Infinity,
    admitted: { reason: 'ok', source: 'none', verdicts: [], binding: undefined, limit: Infinity },
    refused: {},
  },
  {
    name: 'deny',
    whenStoreFails: 'deny',
    admits: 0,
    admitted: {},
    refused: { reason: 'store-unavailable', source: 'none', remaining: 0 },
  },
];

/** One store with a limiter for each expectation, and what they were told and answered. */
export class Outage {
  readonly store: RedisStore;
  readonly errors: unknown[] = [];
  private readonly limiters: readonly Limiter<RedisStore>[];
  private readonly unhandled: unknown[] = [];
  private asked = 0;
  /** How many requests of each limiter were admitted without the store. */
  private readonly admitted = EXPECTATIONS.map(() => 0);

  constructor(store: RedisStore) {
    this.store = store;
    this.limiters = EXPECTATIONS.map(({ name, whenStoreFails }) =>
      createLimiter({
        store,
        limits: [{ name, policy, whenStoreFails }],
        onStoreError: (error) => this.errors.push(error),
      }),
    );
    const note = (error: unknown): void => void this.unhandled.push(error);
    process.on('unhandledRejection', note);
    onTestFinished(async () => {
      for (const limiter of this.limiters) await limiter.close();
      process.off('unhandledRejection', note);
    });
  }

  /** One decision of each limiter, all asked at once. */
  async round(call: 'consume' | 'peek' = 'consume'): Promise<readonly Decision[]> {
    this.asked++;
    return Promise.all(
      this.limiters.map(async (limiter, index) => {
        const began = performance.now();
        const { name } = EXPECTATIONS[index] as Expectation;
        const decision = await limiter[call]({ [name]: 'k' });
        expect(performance.now() - began).toBeLessThan(DEADLINE_MS + SLACK_MS);
        return decision;
      }),
    );
  }

  /** The store answers all of them, and does so soon. */
  async isAsked(withinMs: number = RECOVERY_MS): Promise<readonly Decision[]> {
    const began = performance.now();
    for (;;) {
      const decisions = await this.round('peek');
      if (decisions.every(({ source }) => source === 'store')) {
        expect(performance.now() - began).toBeLessThan(withinMs);
        expect(this.store.health().store).toBe('up');
        return decisions;
      }
      expect(performance.now() - began).toBeLessThan(withinMs);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Goes on until the store is known to be down, and a while longer. Every answer is as its limit says. */
  async isLived(says: RegExp): Promise<void> {
    let left = 2 * CAPACITY;
    let told: number | undefined;
    const began = Date.now();
    while (left > 0) {
      this.check(await this.round());
      if (this.store.health().store === 'up') continue;
      // In the round in which it came to be known, not all of them were told of it.
      if (--left === 2 * CAPACITY - 2) told = this.errors.length;
      // Long enough in all for Redis to be probed.
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    const { store, since, lastError } = this.store.health();
    expect(['down', 'probing']).toContain(store);
    expect(since).toBeGreaterThanOrEqual(began - 1);
    expect(String(lastError)).toMatch(says);
    // What is known is not told again.
    expect(this.errors).toHaveLength(told ?? 0);
    expect(this.errors.every((error) => error instanceof TollgateStoreError)).toBe(true);
  }

  /** Holds decisions of `consume` to what their limits say, as far as the store did not answer. */
  check(decisions: readonly Decision[]): void {
    for (const [index, decision] of decisions.entries()) {
      if (decision.source === 'store') continue;
      const { admits, admitted, refused } = EXPECTATIONS[index] as Expectation;
      const before = this.admitted[index] as number;
      const isFree = before < admits;
      expect(decision).toMatchObject({ allowed: isFree, ...(isFree ? admitted : refused) });
      // Long enough to be worth telling.
      if (!isFree) expect(decision.retryAfterMs).toBeGreaterThanOrEqual(1_000);
      if (isFree && admits < Infinity) expect(decision.remaining).toBe(admits - before - 1);
      if (isFree) this.admitted[index] = before + 1;
    }
  }

  /** What must hold after every fault. */
  async isOver(site: Site, decisions: readonly Decision[]): Promise<void> {
    await new Promise(setImmediate);
    expect(this.unhandled).toEqual([]);
    expect(await site.immortals()).toEqual([]);
    for (const { remaining } of decisions) {
      expect(CAPACITY - remaining).toBeLessThanOrEqual(this.asked);
    }
  }
}

/** Lives through a fault, from before it begins until after it is over. */
export async function live(site: Site, store: RedisStore, fault: Fault): Promise<void> {
  const outage = new Outage(store);
  await outage.isAsked(10_000);
  outage.check(await outage.round());
  await fault.cause(site);
  await outage.isLived(fault.says);
  await fault.end(site);
  const after = await outage.isAsked();
  await outage.isOver(site, after);
  expect((await outage.round()).map(({ source }) => source)).toContain('store');
}
