import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLimiter, type Limiter } from '../../packages/core/src/limiter.ts';
import { slidingLog } from '../../packages/core/src/policy.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import { CLIENTS } from './cluster-clients.ts';
import { RedisCluster } from './cluster.ts';

const BUDGET = 30;
const BEFORE = 12;
/** How long a cluster takes to promote a replica, and a client to learn of it; several times that on a busy machine. */
const PATIENCE_MS = 15_000;
/** Of all three masters. */
const KEYS: readonly string[] = Array.from({ length: 12 }, (_, index) => `k${index}`);

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: true });
}, 30_000);

afterAll(() => cluster.stop());

/** What was admitted of each key. */
class Tally {
  readonly admitted = new Map(KEYS.map((key) => [key, 0]));
  private readonly limiter: Limiter<RedisStore>;

  constructor(limiter: Limiter<RedisStore>) {
    this.limiter = limiter;
  }

  /** Asks for each key once. Returns how many could not be decided. */
  async ask(): Promise<number> {
    const decisions = await Promise.all(KEYS.map((key) => this.limiter.consume({ key })));
    for (const { verdicts } of decisions) {
      for (const { key, allowed } of verdicts) {
        if (allowed) this.admitted.set(key, (this.admitted.get(key) ?? 0) + 1);
      }
    }
    return decisions.filter(({ reason }) => reason === 'store-unavailable').length;
  }
}

/**
 * Redis answers before its replicas have heard, so that a promoted replica may lack the charges of the last moments:
 * that many may be admitted again, and no more. Here the replicas have heard of everything before the master is killed,
 * so that nothing is.
 */
test.each(CLIENTS.map(([name, open], turn) => [name, open, turn] as const))(
  '%s: a killed master is followed by its replica',
  async (name, open, turn) => {
    const opened = await open(cluster);
    let errors = 0;
    const limiter = createLimiter({
      store: new RedisStore(opened.client, { prefix: `${name}:`, deadlineMs: 1_000 }),
      limits: [
        {
          name: 'key',
          policy: slidingLog({ limit: BUDGET, window: '1d' }),
          whenStoreFails: 'deny',
        },
      ],
      onStoreError: () => errors++,
    });
    const tally = new Tally(limiter);
    for (let round = 0; round < BEFORE; round++) expect(await tally.ask()).toBe(0);
    // Each client loses another master.
    const master = cluster.masters[turn] as RedisCluster['masters'][number];
    expect(await master.client.wait(1, 5_000)).toBe(1);
    expect(await master.client.dbsize()).toBeGreaterThan(0);

    const killedAt = performance.now();
    await master.stop('SIGKILL');
    let undecided = await tally.ask();
    expect(undecided).toBeGreaterThan(0);
    expect(errors).toBeGreaterThan(0);
    while (undecided > 0 && performance.now() - killedAt < PATIENCE_MS) {
      await sleep(50);
      undecided = await tally.ask();
    }
    expect(undecided).toBe(0);

    for (let round = 0; round < BUDGET; round++) expect(await tally.ask()).toBe(0);
    expect([...tally.admitted]).toEqual(KEYS.map((key) => [key, BUDGET]));
    await limiter.close();
    opened.close();
  },
);
