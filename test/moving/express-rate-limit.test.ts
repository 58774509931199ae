import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import {
  type ExpressRateLimitOptions,
  fromExpressRateLimit,
  rateLimit,
  type Store,
  TollgateConfigError,
} from '@tollgate/express';
import express5, { type RequestHandler } from 'express';
import express4 from 'express4';
import { type Options, rateLimit as theirRateLimit } from 'express-rate-limit';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ask, together } from '../http/clients.ts';
import { LateStore } from '../http/late-store.ts';
import { silent } from '../http/log.ts';
import { nextSeed } from '../seed.ts';
import {
  askBoth,
  at,
  compare,
  datedStore,
  history,
  type Pair,
  type Reading,
  type Sent,
  tellDates,
  told,
  WINDOW_MS,
} from './side-by-side.ts';

tellDates();

/** Their logger takes errors alone, ours also what they are about. */
const quiet = { warn: () => undefined, error: () => undefined };

/** As addresses that a proxy names: some of them are one client, in both. */
const ADDRESSES = [
  '203.0.113.7',
  '::ffff:203.0.113.7',
  '2001:db8:1:201::1',
  '2001:db8:1:2ff::9',
  '2001:db8:1:300::1',
];

/** Requests that ask for `together=n` are answered once n of them have come, those that are refused included. */
async function listen(limiter: RequestHandler, make = express5): Promise<string> {
  const app = make();
  app.set('trust proxy', 1);
  const waiting: (() => void)[] = [];
  let come = 0;
  app.get('/come', (_request, response) => void response.send(String(come)));
  app.use((request, _response, next) => {
    const { together: crowd } = request.query;
    if (crowd !== undefined && ++come === Number(crowd)) {
      setImmediate(() => {
        for (const answer of waiting.splice(0)) answer();
      });
    }
    next();
  });
  app.use(limiter);
  app.use((request, response) => {
    const status = Number(request.query['status'] ?? 200);
    const answer = (): void => void response.status(status).send('done');
    if (come < Number(request.query['together'] ?? 0)) waiting.push(answer);
    else answer();
  });
  const server = app.listen(0, '127.0.0.1');
  onTestFinished(() => server.close().closeAllConnections());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server with theirs, and one with what we make of the same options. */
async function sideBySide(
  options: Partial<Options>,
  { store = datedStore(), make = express5 }: { store?: Store; make?: typeof express5 } = {},
): Promise<Pair> {
  const gate = rateLimit({ logger: silent, ...fromExpressRateLimit(options), store });
  onTestFinished(() => gate.close());
  const theirs = theirRateLimit({ logger: quiet, ...options });
  return { theirs: await listen(theirs, make), ours: await listen(gate, make) };
}

const headersOf = ({ client, skipped }: Sent): Record<string, string> => ({
  'x-forwarded-for': ADDRESSES[client] ?? '',
  'x-user': `user ${client}`,
  ...(skipped && { 'x-skip': 'yes' }),
});

/** Spaces mean nothing in a structured list, and no key of ours leaves the process, not even hashed. */
const withoutPartition: Reading = (field, value) => [
  field,
  field.startsWith('ratelimit') ? value.replace(/; pk=:.*:/, '').replaceAll('; ', ';') : value,
];

const CASES: readonly {
  readonly title: string;
  readonly options: Partial<Options>;
  readonly statuses?: readonly number[];
  readonly make?: typeof express5;
}[] = [
  { title: 'their defaults', options: {} },
  {
    title: 'their defaults, in Express 4',
    options: {},
    // What is used here of Express is the same in 4; their types do not know of one another.
    make: express4 as unknown as typeof express5,
  },
  { title: 'draft-6', options: { limit: 3, standardHeaders: true, legacyHeaders: false } },
  { title: 'draft-7 and X-RateLimit', options: { max: 4, standardHeaders: 'draft-7' } },
  {
    title: 'draft-8',
    options: {
      limit: 3,
      standardHeaders: 'draft-8',
      identifier: 'api',
      legacyHeaders: false,
      ipv6Subnet: 64,
    },
  },
  {
    title: 'only failures counted',
    options: { limit: 3, skipSuccessfulRequests: true, standardHeaders: 'draft-6' },
    statuses: [200, 204, 304, 400, 401, 500],
  },
  {
    title: 'only successes counted',
    options: { limit: 3, skipFailedRequests: true },
    statuses: [200, 201, 404, 503],
  },
  {
    title: 'functions of the request',
    options: {
      limit: (request) => (request.get('x-user') === 'user 1' ? 1 : 4),
      keyGenerator: (request) => request.get('x-user') ?? '',
      skip: (request) => request.get('x-skip') !== undefined,
      message: (request: express5.Request, response: express5.Response) => ({
        user: request.get('x-user'),
        left: response.getHeader('x-ratelimit-remaining'),
      }),
    },
  },
  {
    title: 'functions that take their time',
    options: {
      windowMs: WINDOW_MS / 2,
      limit: async (_request, response) => (response.locals['known'] === undefined ? 2 : 0),
      keyGenerator: async (request) => request.get('x-user') ?? '',
      skip: async (request) => request.get('x-skip') !== undefined,
      message: async () => 'Later.',
    },
  },
];

describe('the same traffic is answered alike', () => {
  it.each(CASES)('$title', async ({ options, statuses = [200, 404], make = express5 }) => {
    const pair = await sideBySide(options, { make });
    const halved = options.windowMs !== undefined;
    const traffic = history(nextSeed(), {
      windows: 3,
      perWindow: 16,
      clients: ADDRESSES.length,
      statuses,
      skips: options.skip !== undefined,
    }).map((sent) => (halved ? { ...sent, atMs: sent.atMs / 2 } : sent));
    const counts = await compare(pair, traffic, headersOf, withoutPartition);
    expect(counts[429]).toBeGreaterThan(5);
    expect(traffic.length - (counts[429] ?? 0)).toBeGreaterThan(15);
  });

  it('a limit of 0', async () => {
    const pair = await sideBySide({ limit: 0 });
    const { theirs, ours } = await askBoth(pair, '/');
    expect([theirs.status, ours.status]).toEqual([429, 429]);
    expect(theirs.headers.get('retry-after')).toBe('60');
    // No wait helps, and a client that is told of one comes back in vain.
    expect(ours.headers.get('retry-after')).toBeNull();
  });

  it('a handler that fails, and a client that leaves, count as failures', async () => {
    const pair = await sideBySide({ limit: 2, skipSuccessfulRequests: true });
    for (const url of [pair.theirs, pair.ours]) {
      const leaving = new AbortController();
      const left = ask(`${url}/?together=9`, { signal: leaving.signal });
      await expect.poll(async () => (await ask(`${url}/come`)).text).toBe('1');
      leaving.abort();
      await expect(left).rejects.toThrow();
      expect((await ask(`${url}/?status=500`)).status).toBe(500);
      expect((await ask(url)).status).toBe(429);
    }
  });
});

it('a preflight is charged, as every request is in theirs', async () => {
  const pair = await sideBySide({ limit: 2 });
  const preflight = { origin: 'https://example.com', 'access-control-request-method': 'GET' };
  for (const url of [pair.theirs, pair.ours]) {
    await ask(url, { method: 'OPTIONS', headers: preflight });
    expect((await ask(url, { method: 'HEAD' })).status).toBe(200);
    expect((await ask(url)).status).toBe(429);
  }
});

describe('where the two differ', () => {
  it('our windows are those of the clock, theirs begin with a key’s first request', async () => {
    const pair = await sideBySide({ limit: 2 });
    const statuses = async (): Promise<number[]> => {
      const { theirs, ours } = await askBoth(pair, '/');
      return [theirs.status, ours.status];
    };
    at(WINDOW_MS / 2);
    expect(await statuses()).toEqual([200, 200]);
    expect(await statuses()).toEqual([200, 200]);
    const refused = await askBoth(pair, '/');
    expect(refused.theirs.headers.get('retry-after')).toBe('60');
    expect(refused.ours.headers.get('retry-after')).toBe('30');
    at(WINDOW_MS);
    expect(await statuses()).toEqual([429, 200]);
    expect(await statuses()).toEqual([429, 200]);
    // Neither admits more than the limit in a window of its own.
    expect(await statuses()).toEqual([429, 429]);
    at(WINDOW_MS * 1.5);
    expect(await statuses()).toEqual([200, 429]);
  });

  it('a refusal of ours says when to come back, whatever fields are wanted', async () => {
    const pair = await sideBySide({ limit: 1, legacyHeaders: false });
    await askBoth(pair, '/');
    const { theirs, ours } = await askBoth(pair, '/');
    expect(told(theirs).fields).toEqual({});
    expect(told(ours).fields).toEqual({ 'retry-after': '60' });
  });

  it('a body of ours is no page, and no cache may keep a refusal', async () => {
    for (const [message, type] of [
      ['Later.', 'text/plain; charset=utf-8'],
      [{ error: 'later' }, 'application/problem+json'],
    ] as const) {
      const pair = await sideBySide({ limit: 0, message });
      const { theirs, ours } = await askBoth(pair, '/');
      expect(ours.text).toBe(theirs.text);
      expect(theirs.headers.get('content-type')).toMatch(/^(text\/html|application\/json);/);
      expect(ours.headers.get('content-type')).toBe(type);
      expect(theirs.headers.get('cache-control')).toBeNull();
      expect(ours.headers.get('cache-control')).toBe('no-store');
    }
  });

  it('requests in flight that turn out not to count cost nobody else his place', async () => {
    const pair = await sideBySide({ limit: 2, skipSuccessfulRequests: true });
    const refused = async (url: string): Promise<number> => {
      const replies = await Promise.all(together(`${url}/?together=8`, 8));
      return replies.filter(({ status }) => status === 429).length;
    };
    expect(await refused(pair.theirs)).toBe(6);
    expect(await refused(pair.ours)).toBe(0);
  });

  it('a redirect with nothing remaining is followed by clients that obey fields', async () => {
    const pair = await sideBySide({ limit: 1 });
    const { theirs, ours } = await askBoth(pair, '/?status=302');
    expect([theirs.status, ours.status]).toEqual([302, 302]);
    expect(theirs.headers.get('x-ratelimit-remaining')).toBe('0');
    expect(told(ours).fields).toEqual({});
  });

  it('a partition key, which is made of the client’s, does not leave the process', async () => {
    const pair = await sideBySide({ standardHeaders: 'draft-8', identifier: 'api' });
    const { theirs, ours } = await askBoth(pair, '/');
    expect(theirs.headers.get('ratelimit-policy')).toMatch(/^"api"; q=5; w=60; pk=:\w+=*:$/);
    expect(ours.headers.get('ratelimit-policy')).toBe('"api";q=5;w=60');
  });

  it.each([
    { passOnStoreError: false, statuses: [500, 503] },
    { passOnStoreError: true, statuses: [200, 200] },
  ])(
    'a store that fails, passOnStoreError: $passOnStoreError',
    async ({ passOnStoreError, statuses }) => {
      const fault = new Error('out of reach');
      const store = new LateStore();
      store.fault = fault;
      const failing = (): Promise<never> => Promise.reject(fault);
      const theirStore = { increment: failing, decrement: failing, resetKey: failing };
      const gate = rateLimit({
        logger: silent,
        ...fromExpressRateLimit({ passOnStoreError }),
        store,
      });
      onTestFinished(() => gate.close());
      const pair = {
        theirs: await listen(
          theirRateLimit({ logger: quiet, store: theirStore, passOnStoreError }),
        ),
        ours: await listen(gate),
      };
      const { theirs, ours } = await askBoth(pair, '/');
      // The client did nothing wrong, and may come back: that is a 503 with Retry-After.
      expect([theirs.status, ours.status]).toEqual(statuses);
      expect(ours.headers.get('retry-after')).toBe(passOnStoreError ? null : '1');
    },
  );

  it('a request without a key shares no budget with all others that have none', async () => {
    const pair = await sideBySide({
      limit: 2,
      keyGenerator: (request) => request.get('x-user') as string,
    });
    const statuses: number[][] = [];
    for (let i = 0; i < 3; i++) {
      const { theirs, ours } = await askBoth(pair, '/');
      statuses.push([theirs.status, ours.status]);
    }
    expect(statuses).toEqual([
      [200, 500],
      [200, 500],
      [429, 500],
    ]);
  });

  it('an IPv4 address is one client in all notations', async () => {
    const pair = await sideBySide({ limit: 1 });
    await askBoth(pair, '/', { 'x-forwarded-for': '203.0.113.7' });
    const { theirs, ours } = await askBoth(pair, '/', { 'x-forwarded-for': '64:ff9b::cb00:7107' });
    expect([theirs.status, ours.status]).toEqual([200, 429]);
  });

  it('a limit that is no number is a fault, and not no limit', async () => {
    const pair = await sideBySide({ limit: () => Number.NaN });
    const { theirs, ours } = await askBoth(pair, '/');
    expect(theirs.status).toBe(200);
    expect(theirs.headers.get('x-ratelimit-limit')).toBe('NaN');
    expect(ours.status).toBe(500);
  });
});

describe('what cannot be carried over exactly', () => {
  const mistakes: readonly [
    path: string,
    options: ExpressRateLimitOptions & object,
    mend: string,
  ][] = [
    ['store', { store: {} }, 'redisStore'],
    ['handler', { handler: () => undefined }, 'refusals: "next"'],
    ['requestWasSuccessful', { requestWasSuccessful: () => true }, 'countOnly'],
    ['retryAfter', { retryAfter: 9 }, 'leave it out'],
    ['statusCode', { statusCode: 503 }, 'refusals: "next"'],
    ['requestPropertyName', { requestPropertyName: 'limit' }, 'request.rateLimit'],
    ['validate', { validate: { trustProxy: false } }, 'leave it out'],
    ['identifier', { standardHeaders: 'draft-8' }, 'starts with a letter'],
    ['identifier', { identifier: '5-in-1min' }, 'a letter'],
    ['identifier', { identifier: () => 'api' }, 'a letter'],
    ['ipv6Subnet', { ipv6Subnet: () => 64 }, 'addressKey'],
    ['ipv6Subnet', { ipv6Subnet: 0 }, 'from 1 to 128'],
    ['skipSuccessfulRequests', { skipFailedRequests: true, skipSuccessfulRequests: true }, 'drop'],
    ['standardHeaders', { standardHeaders: 'draft-9' as 'draft-8' }, 'draft-8'],
    ['limit', { limit: Number.NaN }, 'whole number'],
    ['max', { max: '5' as unknown as number }, 'whole number'],
    ['windowMs', { windowMs: 0 }, 'milliseconds'],
    ['windowMs', { windowMs: '1m' as unknown as number }, 'milliseconds'],
    ['message', { message: Buffer.from('no') }, 'a text'],
    ['delayAfter', { delayAfter: 1 } as object, 'no such option'],
  ];

  it.each(mistakes)('%s: %o', (path, options, mend) => {
    const make = (): unknown => fromExpressRateLimit(options);
    expect(make).toThrow(TollgateConfigError);
    expect(make).toThrow(mend);
    expect(make).toThrow(expect.objectContaining({ path }));
  });

  it('what says nothing is as good as left out', () => {
    expect(() => fromExpressRateLimit(null as never)).toThrow(TollgateConfigError);
    const options = { store: null, handler: undefined, limit: undefined, max: 7 };
    const [limit] = fromExpressRateLimit(options).limits;
    expect(limit.policy).toMatchObject({ limit: 7, window: 60_000 });
  });
});
