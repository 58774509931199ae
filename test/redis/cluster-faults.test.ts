import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLimiter, type Limiter } from '../../packages/core/src/limiter.ts';
import { slidingLog } from '../../packages/core/src/policy.ts';
import { slotOf } from '../../packages/core/src/redis/slots.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import { type ClusterClient, CLIENTS } from './cluster-clients.ts';
import { type Node, RedisCluster } from './cluster.ts';

const DEADLINE_MS = 1_000;
const PAUSE_MS = 2_500;
/** How late an answer may be on a busy machine. */
const SLACK_MS = 1_200;
const NAMES = ['first', 'second', 'third'] as const;

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
}, 30_000);

afterAll(() => cluster.stop());

describe.each(CLIENTS)('%s', (name, open) => {
  let opened: ClusterClient;
  let limiter: Limiter<RedisStore>;
  let keys: Record<(typeof NAMES)[number], string>;
  let nodes: Node[];
  let errors: unknown[];

  /** The node on which a limit's key is. */
  async function nodeOf(limit: string, key: string): Promise<Node> {
    await limiter.charge({ [limit]: key });
    for (const node of cluster.masters) {
      const stored = await node.client.keys(`${name}*:${limit}:${key}`);
      if (stored.length > 0) return cluster.ownerOf(slotOf(stored[0] as string));
    }
    throw new Error(`${limit} ${key} is stored nowhere`);
  }

  beforeAll(async () => {
    opened = await open(cluster);
    errors = [];
    limiter = createLimiter({
      store: new RedisStore(opened.client, { prefix: `${name}:`, deadlineMs: DEADLINE_MS }),
      limits: NAMES.map((limit) => ({
        name: limit,
        policy: slidingLog({ limit: 2, window: '1d' }),
        whenStoreFails: 'deny' as const,
      })),
      onStoreError: (error) => errors.push(error),
    });
    // Each limit's key is on a node of its own.
    const found: string[] = [];
    nodes = [];
    for (const limit of NAMES) {
      for (let attempt = 0; ; attempt++) {
        const node = await nodeOf(limit, `k${attempt}`);
        if (nodes.includes(node)) continue;
        nodes.push(node);
        found.push(`k${attempt}`);
        break;
      }
    }
    const [first = '', second = '', third = ''] = found;
    keys = { first, second, third };
    await limiter.reset(keys);
  }, 30_000);

  afterAll(async () => {
    await limiter.close();
    opened.close();
  });

  async function left(limit: (typeof NAMES)[number]): Promise<number> {
    return (await limiter.peek({ [limit]: keys[limit] })).remaining;
  }

  test('a slot that does not answer ends the decision in time, and earlier ones get back', async () => {
    const [, second] = nodes as [Node, Node];
    errors.length = 0;
    await second.client.call('CLIENT', 'PAUSE', PAUSE_MS);
    const askedAt = performance.now();
    const decision = await limiter.consume(keys);
    expect(performance.now() - askedAt).toBeLessThan(DEADLINE_MS + SLACK_MS);
    expect(decision.reason).toBe('store-unavailable');
    expect(errors).toHaveLength(1);
    await expect.poll(() => left('first'), { timeout: 10_000 }).toBe(2);
    expect(await left('third')).toBe(2);
    await sleep(PAUSE_MS);
    await limiter.reset(keys);
  });

  test('a refusal stands in time though a later slot does not answer', async () => {
    const [, , third] = nodes as [Node, Node, Node];
    await limiter.charge({ second: keys.second }, 2);
    errors.length = 0;
    await third.client.call('CLIENT', 'PAUSE', PAUSE_MS);
    const askedAt = performance.now();
    const decision = await limiter.consume(keys);
    expect(performance.now() - askedAt).toBeLessThan(DEADLINE_MS + SLACK_MS);
    expect(decision.reason).toBe('limited');
    expect(decision.binding?.name).toBe('second');
    expect(decision.verdicts.map((verdict) => [verdict.name, verdict.remaining])).toEqual([
      ['first', 2],
      ['second', 0],
    ]);
    await sleep(PAUSE_MS);
    expect(await left('first')).toBe(2);
    expect(await left('third')).toBe(2);
  });
});
