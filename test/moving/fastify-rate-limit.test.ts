import fastifyRateLimit, { type RateLimitPluginOptions } from '@fastify/rate-limit';
import {
  type FastifyRateLimitOptions,
  type FixedWindowPolicy,
  fromFastifyRateLimit,
  type Store,
  tollgate,
  TollgateConfigError,
} from '@tollgate/fastify';
import { fastify, type FastifyInstance, type FastifyRequest } from 'fastify';
import { describe, expect, it, onTestFinished } from 'vitest';
import { START } from '../http/clock.ts';
import { ask } from '../http/clients.ts';
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

const ADDRESSES = [
  '203.0.113.7',
  '::ffff:203.0.113.7',
  '2001:db8:1:201::1',
  '2001:db8:1:201::9',
  '2001:db8:1:202::1',
];

/** Adds routes, and what else an application has, behind the limit. */
type Furnish = (app: FastifyInstance) => unknown;

const furnish: Furnish = (app) => {
  app.all('/', async (request, reply) => {
    const { status = '200' } = request.query as { status?: string };
    return reply.code(Number(status)).send('done');
  });
};

async function listen(register: (app: FastifyInstance) => unknown): Promise<string> {
  const app = fastify({ forceCloseConnections: true, trustProxy: (_address, hop) => hop < 1 });
  onTestFinished(() => app.close());
  await register(app);
  return app.listen({ host: '127.0.0.1', port: 0 });
}

/** A server with theirs, and one with what we make of the same options. */
async function sideBySide(
  options: RateLimitPluginOptions,
  { store = datedStore(), routes = furnish }: { store?: Store; routes?: Furnish } = {},
): Promise<Pair> {
  return {
    theirs: await listen(async (app) => {
      await app.register(fastifyRateLimit, options);
      await routes(app);
    }),
    ours: await listen(async (app) => {
      await app.register(tollgate, { logger: silent, ...fromFastifyRateLimit(options), store });
      await routes(app);
    }),
  };
}

const headersOf = ({ client, skipped }: Sent): Record<string, string> => ({
  'x-forwarded-for': ADDRESSES[client] ?? '',
  'x-user': `user ${client}`,
  ...(skipped && { 'x-skip': 'yes' }),
});

/** The three numbers go by draft-6's names in ours, which has a policy beside them. */
const byDraft6: Reading = (field, value) =>
  field === 'ratelimit-policy' ? undefined : [field.replace(/^x-/, ''), value];

const userOf = ({ headers }: FastifyRequest): string => String(headers['x-user']);

const CASES: readonly { readonly title: string; readonly options: RateLimitPluginOptions }[] = [
  { title: 'their X-RateLimit', options: { max: 4 } },
  { title: 'their draft', options: { max: 3, timeWindow: '1 minute', enableDraftSpec: true } },
  {
    title: 'no fields',
    options: {
      max: 3,
      timeWindow: 60_000,
      addHeaders: {
        'x-ratelimit-limit': false,
        'x-ratelimit-remaining': false,
        'x-ratelimit-reset': false,
      },
      addHeadersOnExceeding: {
        'x-ratelimit-limit': false,
        'x-ratelimit-remaining': false,
        'x-ratelimit-reset': false,
      },
    },
  },
  {
    title: 'networks of /56, and some that are allowed',
    options: { max: 3, ipv6Subnet: 56, allowList: ['203.0.113.7'], hook: 'preHandler' },
  },
  {
    title: 'a network that is allowed',
    options: { max: 3, allowList: ['2001:db8:1:201::', '192.0.2.1'] },
  },
  {
    title: 'functions of the request',
    options: {
      max: (request, key) => (key === 'user 1' && userOf(request) === key ? 1 : 4),
      keyGenerator: userOf,
      allowList: (request, key) => request.headers['x-skip'] !== undefined && key !== '',
      errorResponseBuilder: (request, { statusCode, after, max, ttl, ban }) => ({
        statusCode,
        user: userOf(request),
        message: `${max} are enough, ${after} or ${ttl}${ban ? '!' : ''}`,
      }),
    },
  },
  {
    title: 'functions that take their time',
    options: {
      max: async (_request, key) => key.length - 4,
      keyGenerator: async (request) => userOf(request),
      allowList: async (request) => request.headers['x-skip'] !== undefined,
      errorResponseBuilder: (_request, { statusCode, after }) =>
        Object.assign(new Error(`Wait ${after}`), { statusCode }),
    },
  },
  {
    title: 'keys that are numbers',
    options: { max: 3, keyGenerator: (request) => Number(userOf(request).slice(5)) },
  },
];

describe('the same traffic is answered alike', () => {
  it.each(CASES)('$title', async ({ options }) => {
    const pair = await sideBySide(options);
    const traffic = history(nextSeed(), {
      windows: 3,
      perWindow: 16,
      clients: ADDRESSES.length,
      statuses: [200, 404],
      skips: typeof options.allowList === 'function',
    });
    const counts = await compare(pair, traffic, headersOf, byDraft6);
    expect(counts[429]).toBeGreaterThan(5);
    expect(traffic.length - (counts[429] ?? 0)).toBeGreaterThan(15);
  });

  it.each(['1s', '90 sec', '59.4 minutes', '1 hr', '1.5h', '36 hours', '2w', '366d', '30000'])(
    'a wait of %s, in words',
    async (timeWindow) => {
      const { window } = fromFastifyRateLimit({ timeWindow }).limits[0].policy as FixedWindowPolicy;
      // Where one of our windows begins.
      at(window - (START % window));
      const pair = await sideBySide({ max: 1, timeWindow });
      await askBoth(pair, '/');
      const { theirs, ours } = await askBoth(pair, '/');
      expect(theirs.status).toBe(429);
      expect(told(ours, byDraft6)).toEqual(told(theirs, byDraft6));
    },
  );

  it('onExceeded is told of refusals, with the key', async () => {
    const toldOf: string[] = [];
    const pair = await sideBySide({
      max: 1,
      keyGenerator: async (request) => userOf(request),
      onExceeded: (_request, key) => void toldOf.push(key),
    });
    for (let i = 0; i < 3; i++) await askBoth(pair, '/', { 'x-user': 'ada' });
    expect(toldOf).toEqual(['ada', 'ada', 'ada', 'ada']);
  });

  it('a route with numbers of its own has a budget of its own', async () => {
    const options = { max: 3, timeWindow: '1 minute' };
    const route = { max: 1, timeWindow: '1 minute' };
    const { limits } = fromFastifyRateLimit({ ...route, nameSpace: 'login' });
    const pair = await sideBySide(options, {
      routes: (app) => {
        const rateLimit = app.hasDecorator('tollgate') ? { limits, inherit: false } : route;
        app.get('/login', { config: { rateLimit: rateLimit as never } }, async () => 'in');
        app.get('/health', { config: { rateLimit: false } }, async () => 'well');
        furnish(app);
      },
    });
    for (const path of ['/login', '/', '/login', '/health', '/', '/', '/']) {
      const { theirs, ours } = await askBoth(pair, path);
      expect(told(ours, byDraft6), path).toEqual(told(theirs, byDraft6));
    }
  });
});

it('a preflight is charged, as every request is in theirs', async () => {
  const pair = await sideBySide({ max: 2 });
  const preflight = { origin: 'https://example.com', 'access-control-request-method': 'GET' };
  for (const url of [pair.theirs, pair.ours]) {
    await ask(url, { method: 'OPTIONS', headers: preflight });
    expect((await ask(url, { method: 'HEAD' })).status).toBe(200);
    expect((await ask(url)).status).toBe(429);
  }
});

describe('where the two differ', () => {
  it('our windows are those of the clock, theirs begin with a key’s first request', async () => {
    const pair = await sideBySide({ max: 1 });
    const statuses = async (): Promise<number[]> => {
      const { theirs, ours } = await askBoth(pair, '/');
      return [theirs.status, ours.status];
    };
    at(WINDOW_MS / 2);
    expect(await statuses()).toEqual([200, 200]);
    expect(await statuses()).toEqual([429, 429]);
    at(WINDOW_MS);
    expect(await statuses()).toEqual([429, 200]);
    at(WINDOW_MS * 1.5);
    expect(await statuses()).toEqual([200, 429]);
  });

  it('X-RateLimit-Reset of theirs counts seconds, ours would name one since the epoch', async () => {
    const { theirs, ours } = await askBoth(await sideBySide({ max: 1 }), '/');
    expect(theirs.headers.get('x-ratelimit-reset')).toBe('60');
    // Sent under the name of another meaning it would be read wrongly; under draft-6's it is right.
    expect(ours.headers.get('x-ratelimit-reset')).toBeNull();
    expect(ours.headers.get('ratelimit-reset')).toBe('60');
  });

  it('a redirect with nothing remaining is followed by clients that obey fields', async () => {
    const { theirs, ours } = await askBoth(await sideBySide({ max: 1 }), '/?status=302');
    expect([theirs.status, ours.status]).toEqual([302, 302]);
    expect(theirs.headers.get('x-ratelimit-remaining')).toBe('0');
    expect(told(ours).fields).toEqual({});
  });

  it('a body is a problem, and no cache may keep it', async () => {
    const { theirs, ours } = await askBoth(await sideBySide({ max: 0 }), '/');
    expect(ours.text).toBe(theirs.text);
    expect(theirs.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(ours.headers.get('content-type')).toBe('application/problem+json');
    expect(ours.headers.get('cache-control')).toBe('no-store');
    // No wait helps with a max of 0.
    expect(theirs.headers.get('retry-after')).toBe('60');
    expect(ours.headers.get('retry-after')).toBeNull();
  });

  it('requests without a route are limited, and those of routes declared before', async () => {
    const routes: Furnish = (app) => void app.get('/late', async () => 'late');
    const early: Furnish = (app) => void app.get('/early', async () => 'early');
    const options = { max: 1 };
    const pair = {
      theirs: await listen(async (app) => {
        early(app);
        await app.register(fastifyRateLimit, options);
        routes(app);
      }),
      ours: await listen(async (app) => {
        early(app);
        const gate = { logger: silent, ...fromFastifyRateLimit(options), store: datedStore() };
        await app.register(tollgate, gate);
        routes(app);
      }),
    };
    const statuses: number[][] = [];
    for (const path of ['/late', '/early', '/none']) {
      const { theirs, ours } = await askBoth(pair, path);
      statuses.push([theirs.status, ours.status]);
    }
    expect(statuses).toEqual([
      [200, 200],
      [200, 429],
      [404, 429],
    ]);
  });

  it('HEAD shares the budget of GET, on a route with numbers of its own too', async () => {
    const route = { max: 1, timeWindow: 60_000 };
    const { limits } = fromFastifyRateLimit({ ...route, nameSpace: 'route' });
    const pair = await sideBySide(
      { max: 9 },
      {
        routes: (app) => {
          const rateLimit = app.hasDecorator('tollgate') ? { limits, inherit: false } : route;
          app.get('/', { config: { rateLimit: rateLimit as never } }, async () => 'Hello');
        },
      },
    );
    await askBoth(pair, '/');
    const statuses = [pair.theirs, pair.ours].map(
      async (url) => (await ask(url, { method: 'HEAD' })).status,
    );
    expect(await Promise.all(statuses)).toEqual([200, 429]);
  });

  it('ours runs where it is registered, theirs behind the hooks of the application', async () => {
    const order: string[] = [];
    const keyGenerator = (): string => {
      order.push('limit');
      return 'everyone';
    };
    const pair = await sideBySide(
      { max: 9, keyGenerator },
      {
        routes: (app) => {
          app.addHook('onRequest', async () => void order.push('hook'));
          furnish(app);
        },
      },
    );
    await askBoth(pair, '/');
    expect(order).toEqual(['hook', 'limit', 'limit', 'hook']);
  });

  it('a key at its limit is not forgotten for want of room', async () => {
    const options = { max: 1, keyGenerator: userOf };
    const store = datedStore();
    const pair = {
      theirs: await listen(async (app) => {
        await app.register(fastifyRateLimit, { ...options, cache: 3 });
        furnish(app);
      }),
      ours: await listen(async (app) => {
        await app.register(tollgate, { logger: silent, ...fromFastifyRateLimit(options), store });
        furnish(app);
      }),
    };
    let refused = { theirs: 0, ours: 0 };
    for (let i = 0; i < 12; i++) {
      const { theirs, ours } = await askBoth(pair, '/', { 'x-user': `user ${i % 4}` });
      refused = {
        theirs: refused.theirs + Number(theirs.status === 429),
        ours: refused.ours + Number(ours.status === 429),
      };
    }
    expect(refused).toEqual({ theirs: 0, ours: 8 });
  });

  it.each([
    { skipOnError: false, statuses: [500, 503], limit: [null, null] },
    // What was not counted is not told of.
    { skipOnError: true, statuses: [200, 200], limit: ['7', null] },
  ])('a store that fails, skipOnError: $skipOnError', async ({ skipOnError, statuses, limit }) => {
    const store = new LateStore();
    store.fault = new Error('out of reach');
    class FailingStore {
      incr(_key: string, done: (error: Error) => void): void {
        done(new Error('out of reach'));
      }
      child(): FailingStore {
        return this;
      }
    }
    const pair = {
      theirs: await listen(async (app) => {
        await app.register(fastifyRateLimit, { max: 7, skipOnError, store: FailingStore });
        furnish(app);
      }),
      ours: await listen(async (app) => {
        const gate = { logger: silent, ...fromFastifyRateLimit({ max: 7, skipOnError }), store };
        await app.register(tollgate, gate);
        furnish(app);
      }),
    };
    const { theirs, ours } = await askBoth(pair, '/');
    expect([theirs.status, ours.status]).toEqual(statuses);
    const fields = [theirs.headers.get('x-ratelimit-limit'), ours.headers.get('ratelimit-limit')];
    expect(fields).toEqual(limit);
  });

  it('a request without a key shares no budget with all others that have none', async () => {
    const keyGenerator = (): string => undefined as unknown as string;
    const { theirs, ours } = await askBoth(await sideBySide({ max: 1, keyGenerator }), '/');
    expect([theirs.status, ours.status]).toEqual([200, 500]);
  });

  it('a body of another status is a fault', async () => {
    const errorResponseBuilder = (): object => ({ statusCode: 418, message: 'tea' });
    const pair = await sideBySide({ max: 0, errorResponseBuilder });
    const { theirs, ours } = await askBoth(pair, '/');
    expect([theirs.status, ours.status]).toEqual([418, 500]);
  });

  it('options that are no numbers are mistakes, and not the defaults', async () => {
    const options = { max: '2', timeWindow: '1 minute' } as object as RateLimitPluginOptions;
    const theirs = await listen(async (app) => {
      await app.register(fastifyRateLimit, options);
      furnish(app);
    });
    const { theirs: reply } = await askBoth({ theirs, ours: theirs }, '/');
    expect(reply.headers.get('x-ratelimit-limit')).toBe('1000');
    expect(() => fromFastifyRateLimit(options)).toThrow('whole number');
  });
});

describe('what cannot be carried over exactly', () => {
  const mistakes: readonly [path: string, options: object, mend: string][] = [
    ['redis', { redis: {} }, 'redisStore'],
    ['store', { store: class {} }, 'redisStore'],
    ['cache', { cache: 100 }, 'maxKeys'],
    ['ban', { ban: 2 }, 'after'],
    ['onBanReach', { onBanReach: () => undefined }, 'onReject'],
    ['onExceeding', { onExceeding: () => undefined }, 'onDecision'],
    ['groupId', { groupId: 'a' }, 'several routes'],
    ['continueExceeding', { continueExceeding: true }, 'ban'],
    ['exponentialBackoff', { exponentialBackoff: true }, 'growth'],
    ['global', { global: false }, 'config'],
    ['hook', { hook: 'preParsing' }, 'preHandler'],
    ['nameSpace', { nameSpace: 'app:login:' }, 'a letter'],
    ['max', { max: 2.5 }, 'whole number'],
    ['max', { max: -1 }, 'whole number'],
    ['timeWindow', { timeWindow: 'banana' }, '1 minute'],
    ['timeWindow', { timeWindow: 0 }, 'from 1 to 400 days'],
    ['timeWindow', { timeWindow: () => 60_000 }, 'fixedWindow'],
    ['ipv6Subnet', { ipv6Subnet: 129 }, 'from 0 to 128'],
    ['allowList', { allowList: '127.0.0.1' }, 'an array'],
    ['addHeaders.retry-after', { addHeaders: { 'retry-after': false } }, 'come back'],
    ['addHeaders', { addHeaders: { 'x-ratelimit-limit': false } }, 'all together'],
    ['maxx', { maxx: 1 }, 'no such option'],
  ];

  it.each(mistakes)('%s: %o', (path, options, mend) => {
    const make = (): unknown => fromFastifyRateLimit(options as FastifyRateLimitOptions);
    expect(make).toThrow(TollgateConfigError);
    expect(make).toThrow(mend);
    expect(make).toThrow(expect.objectContaining({ path }));
  });

  it('what says nothing is as good as left out', () => {
    expect(() => fromFastifyRateLimit(null as never)).toThrow(TollgateConfigError);
    const [limit] = fromFastifyRateLimit({
      store: null,
      ban: -1,
      global: true,
      continueExceeding: false,
      redis: undefined,
      timeWindow: '2 minutes',
    }).limits;
    expect(limit.policy).toMatchObject({ limit: 1_000, window: 120_000 });
  });
});
