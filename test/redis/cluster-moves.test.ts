import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createLimiter } from '../../packages/core/src/limiter.ts';
import { fixedWindow, slidingLog, tokenBucket } from '../../packages/core/src/policy.ts';
import { slotOf } from '../../packages/core/src/redis/slots.ts';
import { RedisStore } from '../../packages/core/src/redis/store.ts';
import { type ClusterClient, CLIENTS } from './cluster-clients.ts';
import { type Node, RedisCluster } from './cluster.ts';

const BUDGET = 400;
const CLIENTS_AT_ONCE = 4;
/** How long a slot is half moved: long enough for requests to meet it so, and shorter than any deadline here. */
const HALF_MOVED_MS = 50;

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
});

afterAll(() => cluster.stop());

/** Asks all the time, with some requests under way, until it is stopped. */
class Load {
  admitted = 0;
  refused = 0;
  private stopped = false;
  private readonly done: Promise<unknown>;
  private reached: { readonly answers: number; readonly resolve: () => void } | undefined;

  constructor(ask: () => Promise<boolean>) {
    const client = async (): Promise<void> => {
      while (!this.stopped) {
        if (await ask()) this.admitted++;
        else this.refused++;
        if (this.reached !== undefined && this.answers >= this.reached.answers) {
          this.reached.resolve();
        }
      }
    };
    this.done = Promise.all(Array.from({ length: CLIENTS_AT_ONCE }, client));
    // Told by stop() or more(), whichever is waited for.
    this.done.catch(() => undefined);
    onTestFinished(() => void (this.stopped = true));
  }

  get answers(): number {
    return this.admitted + this.refused;
  }

  /** Resolves once so many more requests are answered. */
  async more(answers: number): Promise<void> {
    const next = new Promise<void>((resolve) => {
      this.reached = { answers: this.answers + answers, resolve };
    });
    await Promise.race([next, this.done]);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.done;
  }
}

/** The slot of what is stored under a prefix, the node that has it, and another one. */
async function slotAndNodes(prefix: string): Promise<[slot: number, from: Node, to: Node]> {
  for (const from of cluster.masters) {
    const [key] = await from.client.keys(`${prefix}*`);
    if (key === undefined) continue;
    const to = cluster.masters.find((node) => node !== from);
    if (to !== undefined) return [slotOf(key), from, to];
  }
  throw new Error('nothing is stored');
}

describe.each(CLIENTS)('%s', (name, open) => {
  let opened: ClusterClient;

  beforeAll(async () => {
    opened = await open(cluster);
  });

  afterAll(() => opened.close());

  test('a slot that is moved under load loses no charge and charges none twice', async () => {
    const prefix = `${name} one:`;
    const limiter = createLimiter({
      store: new RedisStore(opened.client, { prefix, deadlineMs: 20_000 }),
      limits: [{ name: 'key', policy: slidingLog({ limit: BUDGET, window: '1d' }) }],
    });
    const load = new Load(async () => {
      const { allowed, source } = await limiter.consume({ key: 'hot' });
      expect(source).toBe('store');
      return allowed;
    });
    await load.more(20);
    const [slot, from, to] = await slotAndNodes(prefix);
    // That node has to be given the script.
    await to.client.script('FLUSH');
    await cluster.openSlot(slot, from, to);
    await sleep(HALF_MOVED_MS);
    await cluster.moveKeys(await cluster.keysIn(slot, from), from, to);
    // Now the old node says ASK.
    await sleep(HALF_MOVED_MS);
    await cluster.closeSlot(slot, to);
    await load.more(BUDGET);
    await load.stop();
    expect(load.admitted).toBe(BUDGET);
    expect((await limiter.peek({ key: 'hot' })).remaining).toBe(0);
    expect(await to.client.keys(`${prefix}*:hot`)).toHaveLength(1);
    await limiter.close();
  });

  test('two keys of a slot that is moved between them wait for one another', async () => {
    const prefix = `${name} two:`;
    const limiter = createLimiter({
      store: new RedisStore(opened.client, { prefix, deadlineMs: 20_000, hashTag: () => name }),
      limits: [
        { name: 'ip', policy: slidingLog({ limit: BUDGET, window: '1d' }) },
        { name: 'user', policy: tokenBucket({ capacity: 2 * BUDGET, rate: 1, per: '1d' }) },
      ],
    });
    const keys = { ip: '192.0.2.1', user: 'anna' };
    const load = new Load(async () => {
      const { allowed, source } = await limiter.consume(keys);
      expect(source).toBe('store');
      return allowed;
    });
    await load.more(20);
    const [slot, from, to] = await slotAndNodes(prefix);
    const [one, ...others] = await cluster.keysIn(slot, from);
    expect(others).toHaveLength(1);
    await cluster.openSlot(slot, from, to);
    await cluster.moveKeys([one as string], from, to);
    const before = load.answers;
    await sleep(HALF_MOVED_MS);
    // No more than those that were on their way.
    expect(load.answers - before).toBeLessThanOrEqual(CLIENTS_AT_ONCE);
    await cluster.moveKeys(others, from, to);
    await sleep(HALF_MOVED_MS);
    await cluster.closeSlot(slot, to);
    await load.more(BUDGET);
    await load.stop();
    expect(load.admitted).toBe(BUDGET);
    const { verdicts } = await limiter.peek(keys);
    expect(verdicts.map(({ remaining }) => remaining)).toEqual([0, BUDGET]);
    await limiter.close();
  });
});

test('a node is given the script that it lacks, though ioredis will not be redirected once more', async () => {
  const client = new Cluster(cluster.addresses, {
    // One leads to the node, whose answer ioredis then tells in words of its own.
    maxRedirections: 1,
    enableOfflineQueue: false,
    retryDelayOnFailover: 0,
    redisOptions: { maxRetriesPerRequest: 0 },
  });
  client.on('error', () => undefined);
  onTestFinished(() => client.disconnect());
  const prefix = 'led once:';
  const limiter = createLimiter({
    store: new RedisStore(client, { prefix, connection: 'shared', deadlineMs: 20_000 }),
    limits: [{ name: 'key', policy: fixedWindow({ limit: BUDGET, window: '1d' }) }],
  });
  expect((await limiter.consume({ key: 'hot' })).source).toBe('store');
  const [slot, from, to] = await slotAndNodes(prefix);
  await to.client.script('FLUSH');
  await cluster.openSlot(slot, from, to);
  await cluster.moveKeys(await cluster.keysIn(slot, from), from, to);
  await cluster.closeSlot(slot, to);
  const { source, remaining } = await limiter.consume({ key: 'hot' });
  expect({ source, remaining }).toEqual({ source: 'store', remaining: BUDGET - 2 });
  await limiter.close();
});
