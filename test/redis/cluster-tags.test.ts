import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TollgateArgumentError, TollgateConfigError } from '../../packages/core/src/errors.ts';
import { createLimiter, type Limiter } from '../../packages/core/src/limiter.ts';
import { concurrency, slidingLog, tokenBucket } from '../../packages/core/src/policy.ts';
import { slotOf } from '../../packages/core/src/redis/slots.ts';
import { RedisStore, type RedisStoreOptions } from '../../packages/core/src/redis/store.ts';
import { type ClusterClient, CLIENTS } from './cluster-clients.ts';
import { RedisCluster } from './cluster.ts';

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start({ replicas: false });
});

afterAll(() => cluster.stop());

const KEYS = { ip: '192.0.2.1', tenant: 'acme', open: 'acme' };

function limiterOn({ client }: ClusterClient, options: RedisStoreOptions): Limiter<RedisStore> {
  return createLimiter({
    store: new RedisStore(client, { deadlineMs: 20_000, ...options }),
    limits: [
      { name: 'ip', policy: slidingLog({ limit: 5, window: '1d' }) },
      { name: 'tenant', policy: tokenBucket({ capacity: 10, rate: 1, per: '1d' }) },
      { name: 'open', policy: concurrency({ limit: 3 }) },
    ],
  });
}

async function storedKeys(prefix: string): Promise<string[]> {
  const keys = await Promise.all(cluster.masters.map(({ client }) => client.keys(`${prefix}*`)));
  // Not the list of refused keys, which is written when there is time.
  return keys.flat().filter((key) => !key.includes('}1#'));
}

/** Script calls that the cluster has carried out. */
async function scriptCalls(): Promise<number> {
  const stats = await Promise.all(cluster.masters.map(({ client }) => client.info('commandstats')));
  const calls = stats.flatMap((text) => [...text.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]);
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

describe.each(CLIENTS)('%s', (name, open) => {
  let opened: ClusterClient;

  beforeAll(async () => {
    opened = await open(cluster);
  });

  afterAll(() => opened.close());

  test('a hash tag puts the limits of a request into one slot, and one call', async () => {
    const prefix = `${name}:`;
    const limiter = limiterOn(opened, { prefix, hashTag: ({ tenant }) => tenant });
    // The nodes learn the script.
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => limiter.peek({ tenant: `learn ${index}` })),
    );
    const before = await scriptCalls();
    const decisions = [await limiter.consume(KEYS), await limiter.consume(KEYS)];
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true]);
    expect(await scriptCalls()).toBe(before + 2);
    const keys = await storedKeys(prefix);
    expect(keys).toHaveLength(3);
    expect(new Set(keys.map(slotOf)).size).toBe(1);
    await limiter.close();
  });

  test('what a request left behind is found again, with fewer keys at hand', async () => {
    const limiter = limiterOn(opened, {
      prefix: `${name} found:`,
      hashTag: ({ tenant }) => tenant,
    });
    const left = async (): Promise<number[]> =>
      (await limiter.peek(KEYS)).verdicts.map(({ remaining }) => remaining);
    const decision = await limiter.consume(KEYS, { cost: { ip: 2, tenant: 3 } });
    expect(await left()).toEqual([3, 7, 2]);
    // Corrects the key of one limit, and then of another.
    await decision.settle({ ip: 1 });
    expect(await left()).toEqual([4, 7, 2]);
    await decision.release();
    expect(await left()).toEqual([4, 7, 3]);
    await limiter.refund({ tenant: 'acme', ip: KEYS.ip }, { ip: 1, tenant: 2 });
    expect(await left()).toEqual([5, 9, 3]);
    await limiter.consume(KEYS);
    await limiter.reset(KEYS);
    expect(await left()).toEqual([5, 10, 3]);
    await limiter.close();
  });

  test('without a hash tag every operation finds the slots', async () => {
    const limiter = limiterOn(opened, { prefix: `${name} spread:` });
    const left = async (): Promise<number[]> =>
      (await limiter.peek(KEYS)).verdicts.map(({ remaining }) => remaining);
    const decision = await limiter.consume(KEYS, { cost: { ip: 2, tenant: 3 } });
    await decision.settle({ ip: 1, tenant: 1 });
    await decision.release();
    expect(await left()).toEqual([4, 9, 3]);
    await limiter.charge({ ip: KEYS.ip, tenant: KEYS.tenant }, { ip: 1, tenant: 20 });
    expect(await left()).toEqual([3, 0, 3]);
    await limiter.refund({ ip: KEYS.ip, tenant: KEYS.tenant }, { ip: 1, tenant: 18 });
    expect(await left()).toEqual([4, 7, 3]);
    await limiter.reset(KEYS);
    expect(await left()).toEqual([5, 10, 3]);
    expect(await storedKeys(`${name} spread:`)).toEqual([]);
    await limiter.close();
  });
});

describe('a hash tag', () => {
  let opened: ClusterClient;

  beforeAll(async () => {
    const [[, open]] = CLIENTS as [(typeof CLIENTS)[number]];
    opened = await open(cluster);
  });

  afterAll(() => opened.close());

  test.each<[string, NonNullable<RedisStoreOptions['hashTag']>]>([
    ['that is undefined', ({ tenant }) => tenant],
    ['that throws', (keys) => (keys['tenant'] as string).toLowerCase()],
    ['that is a text of nothing', ({ tenant }) => `t:${tenant}`],
    ['that is empty', ({ tenant }) => tenant ?? ''],
  ])('%s without a key says which one to pass', async (_, hashTag) => {
    const limiter = limiterOn(opened, { hashTag });
    const fewer = { ip: KEYS.ip };
    for (const call of [
      () => limiter.consume(fewer),
      () => limiter.peek(fewer),
      () => limiter.charge(fewer),
      () => limiter.refund(fewer),
      () => limiter.reset(fewer),
    ]) {
      expect(call).toThrow(TollgateArgumentError);
      expect(call).toThrow(/key of tenant too, which this call does not pass/);
    }
    await limiter.close();
  });

  test('may fall back to another key, whatever that says', async () => {
    const limiter = limiterOn(opened, {
      prefix: 'falls back:',
      hashTag: ({ tenant, ip }) => tenant ?? ip,
    });
    expect((await limiter.consume({ ip: 'undefined' })).allowed).toBe(true);
    expect((await limiter.peek({ ip: 'undefined' })).remaining).toBe(4);
    await limiter.close();
  });

  test.each<[string, NonNullable<RedisStoreOptions['hashTag']>, RegExp]>([
    ['with a brace', () => 'a}b', /hashTag: expected a text without "}", got "a}b"/],
    ['that is empty', () => '', /hashTag: expected it to return a text that is not empty/],
    [
      'that throws',
      () => {
        throw new RangeError('no such tenant');
      },
      /hashTag: it threw RangeError: no such tenant/,
    ],
  ])('%s is a fault of the settings', async (_, hashTag, message) => {
    const limiter = limiterOn(opened, { hashTag });
    const call = (): unknown => limiter.consume(KEYS);
    expect(call).toThrow(TollgateConfigError);
    expect(call).toThrow(message);
    await limiter.close();
  });

  test('does not go with a prefix that has braces', () => {
    const make = (): RedisStore =>
      new RedisStore(opened.client, { prefix: '{app}:', hashTag: () => 'a' });
    expect(make).toThrow(TollgateConfigError);
    expect(make).toThrow(/prefix: a "{" in it decides the slot of every key/);
  });
});
