import { tokenBucket, type WhenStoreFails } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Site } from '../redis/faults.ts';
import { DEADLINE_MS, SLACK_MS } from '../redis/outage.ts';
import { ask, type Reply } from './clients.ts';
import { silent } from './log.ts';
import { FRAMEWORKS, type Server } from './servers.ts';

/** So slow that no unit comes back during a test. */
const policy = tokenBucket({ capacity: 4, rate: 1, per: '1d' });

const DAY = 86_400;

/** What clients are told while Redis is out of reach, request by request. */
const ANSWERS: readonly {
  readonly whenStoreFails: WhenStoreFails;
  readonly statuses: readonly number[];
  readonly remaining: readonly (string | null)[];
}[] = [
  {
    whenStoreFails: 'local',
    statuses: [200, 200, 200, 200, 429, 429],
    remaining: ['3', '2', '1', '0', '0', '0'],
  },
  {
    // Half of four.
    whenStoreFails: { local: { share: 0.5 } },
    statuses: [200, 200, 429, 429, 429, 429],
    remaining: ['1', '0', '0', '0', '0', '0'],
  },
  {
    whenStoreFails: 'allow',
    statuses: [200, 200, 200, 200, 200, 200],
    remaining: [null, null, null, null, null, null],
  },
  {
    whenStoreFails: 'deny',
    statuses: [503, 503, 503, 503, 503, 503],
    remaining: [null, null, null, null, null, null],
  },
];

function storeAt(port: number): ReturnType<typeof redisStore> {
  const client = new Redis(port, '127.0.0.1', { lazyConnect: true });
  const store = redisStore(client);
  onTestFinished(() => store.close());
  return store;
}

/** Asks, and holds the answer to the deadline. */
async function soon(url: string): Promise<Reply> {
  const began = performance.now();
  const reply = await ask(url);
  expect(performance.now() - began).toBeLessThan(DEADLINE_MS + SLACK_MS);
  return reply;
}

function fieldsOf({ headers }: Reply): string[] {
  return [...headers.keys()].filter((name) => /ratelimit|retry-after/.test(name));
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  const serveAll = (store: ReturnType<typeof redisStore>): Promise<Server[]> =>
    Promise.all(
      ANSWERS.map(({ whenStoreFails }, index) =>
        serve({
          gates: [
            { store, logger: silent, limits: [{ name: `a${index}`, policy, whenStoreFails }] },
          ],
        }),
      ),
    );

  it('answers each limit’s way while Redis is stopped, and asks it again soon after', async () => {
    const site = await Site.open();
    const servers = await serveAll(storeAt(site.proxy.port));
    const limiters = servers.map(({ gate }) => gate.limiter);
    const isAsked = async (): Promise<boolean> => {
      const peeks = limiters.map(async (limiter, index) =>
        limiter.peek({ [`a${index}`]: '127.0.0.1' }),
      );
      return (await Promise.all(peeks)).every(({ source }) => source === 'store');
    };
    await expect.poll(isAsked, { timeout: 10_000, interval: 20 }).toBe(true);
    site.server.pause();
    for (const [index, { url, errors }] of servers.entries()) {
      const { statuses, remaining } = ANSWERS[index] as (typeof ANSWERS)[number];
      const replies: Reply[] = [];
      for (let i = 0; i < statuses.length; i++) replies.push(await soon(url));
      expect(replies.map(({ status }) => status)).toEqual(statuses);
      expect(replies.map(({ headers }) => headers.get('ratelimit-remaining'))).toEqual(remaining);
      for (const reply of replies) isTrue(reply, `a${index}`);
      expect(errors).toEqual([]);
    }
    site.server.resume();
    const began = performance.now();
    await expect.poll(isAsked, { timeout: 10_000, interval: 20 }).toBe(true);
    expect(performance.now() - began).toBeLessThan(1_000 + 2 * SLACK_MS);
    // What was asked of Redis before it was known to be out of reach has been charged after all, and may be all there is.
    const statuses = await Promise.all(servers.map(async ({ url }) => (await soon(url)).status));
    expect(statuses).toEqual([expect.any(Number), 200, 200, 200]);
    expect([200, 429]).toContain(statuses[0]);
    expect(await site.immortals()).toEqual([]);
  });

  it('starts, and answers, where there is no Redis', async () => {
    // Nobody listens there.
    const servers = await serveAll(storeAt(1));
    const statuses = await Promise.all(servers.map(async ({ url }) => (await soon(url)).status));
    expect(statuses).toEqual([200, 200, 200, 503]);
  });
});

/** Nothing in an answer claims what nobody knows. */
function isTrue(reply: Reply, name: string): void {
  const { status, headers, text } = reply;
  if (status === 503) {
    expect(fieldsOf(reply).sort()).toEqual(['ratelimit-policy', 'retry-after']);
    expect(headers.get('retry-after')).toBe('1');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(JSON.parse(text)).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      title: 'Request cannot be satisfied due to temporary server capacity constraints',
      status: 503,
      'violated-policies': [name],
    });
  } else if (status === 429) {
    expect(JSON.parse(text)).toMatchObject({ status: 429, 'violated-policies': [name] });
    const seconds = Number(headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(DAY - 60);
    expect(headers.get('ratelimit')).toMatch(new RegExp(`^"${name}";r=0;t=\\d+$`));
  } else if (headers.get('ratelimit') === null) {
    expect(fieldsOf(reply)).toEqual([]);
  } else {
    const remaining = headers.get('ratelimit-remaining');
    expect(headers.get('ratelimit')).toMatch(new RegExp(`^"${name}";r=${remaining};t=\\d+$`));
  }
}
