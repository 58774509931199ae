import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type Limiter,
  type LimitOptions,
  memoryStore,
  slidingLog,
  tokenBucket,
} from '@tollgate/core';
import { type RedisStore, redisStore } from '@tollgate/core/redis';
import { RedisServer } from './server.ts';

const HISTORIES = 150;
const STEPS = 40;

let server: RedisServer;
let client: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1');
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

const LIMITS: readonly LimitOptions[] = [
  {
    name: 'bucket',
    policy: tokenBucket({ capacity: 1, rate: 1, per: '2s' }),
    ban: { after: 2, within: '10s', for: '3s', growth: 1.7, max: '20s' },
  },
  {
    name: 'log',
    policy: slidingLog({ limit: 2, window: '3s' }),
    ban: { after: 3, within: '30s', for: '5s' },
  },
  { name: 'trial', policy: fixedWindow({ limit: 1, window: '4s' }), mode: 'shadow' },
  { name: 'plain', policy: fixedWindow({ limit: 3, window: '4s' }) },
];

interface Step {
  readonly deed: 'consume' | 'peek' | 'wait' | 'ban' | 'unban' | 'reset';
  readonly applies: number;
  readonly after: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  deed: fc.constantFrom<Step['deed'][]>(
    'consume',
    'consume',
    'consume',
    'consume',
    'consume',
    'peek',
    'ban',
    'unban',
    'reset',
  ),
  applies: fc.integer({ min: 1, max: 15 }),
  after: fc.oneof(
    fc.constantFrom(0, 1, 999),
    fc.integer({ min: 0, max: 2_500_000 }),
    fc.integer({ min: 0, max: 9_000_000 }),
  ),
});

const plain = ({ allowed, reason, verdicts, delayMs }: Decision): object => ({
  allowed,
  reason,
  delayMs,
  verdicts,
});

/** One history told to both stores at once; all histories of a round go together, each with keys of its own. */
async function tell(
  key: string,
  { deed, applies }: Step,
  memory: Limiter<ReturnType<typeof memoryStore>>,
  redis: Limiter<RedisStore>,
): Promise<string> {
  const names = LIMITS.map(({ name }) => name).filter((_, index) => (applies >> index) % 2 === 1);
  const keys = Object.fromEntries(names.map((name) => [name, key]));
  if (deed === 'ban') {
    memory.ban(keys, 4_000);
    await redis.ban(keys, 4_000);
  } else if (deed === 'unban' || deed === 'reset') {
    memory[deed](keys);
    await redis[deed](keys);
  } else {
    const act = deed === 'peek' ? 'peek' : 'consume';
    const [expected, actual] = [memory[act](keys), await redis[act](keys)];
    expect(plain(actual)).toEqual(plain(expected));
    return expected.reason;
  }
  return deed;
}

test('memory and Redis ban alike, field by field', async () => {
  let nowUs = 1_700_000_000_000_000;
  const clock = (): number => nowUs;
  const memory = createLimiter({ store: memoryStore({ clock }), limits: LIMITS });
  const redis = createLimiter({
    store: redisStore(client, { clock, deadlineMs: 10_000 }),
    limits: LIMITS,
  });
  const seen = new Map<string, number>();
  const histories = fc.sample(
    fc.array(fc.tuple(...Array.from({ length: 8 }, () => step)), {
      minLength: STEPS,
      maxLength: STEPS,
    }),
    HISTORIES,
  );
  for (const [index, history] of histories.entries()) {
    for (const steps of history) {
      // One clock for all eight keys, moved by the first.
      nowUs = Math.max(0, nowUs + (steps[0] as Step).after);
      const reasons = await Promise.all(
        steps.map((each, lane) => tell(`${index}.${lane}`, each, memory, redis)),
      );
      for (const reason of reasons) seen.set(reason, (seen.get(reason) ?? 0) + 1);
    }
  }
  expect(
    Math.min(...['ok', 'limited', 'banned'].map((reason) => seen.get(reason) ?? 0)),
  ).toBeGreaterThan(1_000);
  await redis.close();
});

test('a ban lasts no longer than it was to when the clock steps back', async () => {
  let nowUs = 1_700_000_000_000_000;
  const redis = createLimiter({
    store: redisStore(client, { clock: () => nowUs, prefix: 'back:', deadlineMs: 10_000 }),
    limits: LIMITS,
  });
  const keys = { plain: 'k' };
  await redis.ban(keys, 4_000);
  nowUs -= 1_000_000_000;
  expect(await redis.peek(keys)).toMatchObject({ reason: 'banned', retryAfterMs: 4_000 });
  expect((await redis.consume(keys)).reason).toBe('banned');
  nowUs += 3_999_999;
  expect((await redis.consume(keys)).retryAfterMs).toBe(0.001);
  nowUs += 1;
  expect((await redis.consume(keys)).allowed).toBe(true);
  await redis.close();
});

test('a ban holds for every process, has a time to live, and leaves with its end', async () => {
  const limits: readonly LimitOptions[] = [
    { name: 'api', policy: fixedWindow({ limit: 100, window: '1h' }) },
  ];
  const stores = [redisStore(client, { prefix: 'two:' }), redisStore(client, { prefix: 'two:' })];
  const [one, other] = stores.map((store) => createLimiter({ store, limits }));
  await one?.ban({ api: 'mallory' }, 60_000);
  const refused = await other?.consume({ api: 'mallory' });
  expect(refused?.reason).toBe('banned');
  expect(refused?.retryAfterMs).toBeGreaterThan(55_000);
  const keys = await client.keys('two:*:mallory');
  expect(keys).toHaveLength(1);
  for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(55_000);
  await other?.unban({ api: 'mallory' });
  expect(await client.keys('two:*:mallory')).toHaveLength(0);
  expect((await one?.consume({ api: 'mallory' }))?.allowed).toBe(true);
  await Promise.all([one?.close(), other?.close()]);
});
