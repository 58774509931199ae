import { concurrency, fixedWindow, TollgateConfigError } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, Route } from './app.ts';
import { FRAMEWORKS } from './servers.ts';

const policy = fixedWindow({ limit: 10, window: '60s' });
const limit = { name: 'plain', policy };

/** Gates that cannot work, where the mistake is, and a word of the mend. */
const GATES: readonly [mistake: string, gate: object, path: string, mend: string][] = [
  ['nothing', {}, 'limits', 'policy'],
  ['limits and a policy', { limits: [limit], policy }, 'policy', 'limits'],
  ['limits that are no array', { limits: limit }, 'limits', 'array'],
  ['an unknown option', { policy, retries: 5 }, 'retries', 'unknown'],
  ["another library's max", { policy, max: 5 }, 'max', 'policy'],
  ["another library's keyGenerator", { policy, keyGenerator: () => 'x' }, 'keyGenerator', 'by'],
  [
    "another library's windowMs",
    { limits: [{ ...limit, windowMs: 5 }] },
    'limits[0].windowMs',
    'policy',
  ],
  ['an unknown option of a limit', { limits: [{ ...limit, bye: 5 }] }, 'limits[0].bye', 'unknown'],
  ['no policy', { limits: [{ name: 'plain' }] }, 'limits[0].policy', 'missing'],
  ['no name', { limits: [{ policy }] }, 'limits[0].name', 'letter'],
  ['a name twice', { limits: [limit, { ...limit, name: 'PLAIN' }] }, 'limits[1].name', 'taken'],
  [
    'a quota that is a text',
    { policy: { ...policy, limit: '5' } },
    'limits[0].policy.limit',
    'number',
  ],
  ['a quota of NaN', { policy: { ...policy, limit: NaN } }, 'limits[0].policy.limit', 'number'],
  ['a negative quota', { policy: { ...policy, limit: -5 } }, 'limits[0].policy.limit', '0'],
  [
    'a window that is none',
    { policy: { ...policy, window: 'banana' } },
    'limits[0].policy.window',
    '"',
  ],
  ['a cost above the quota', { limits: [{ ...limit, cost: 11 }] }, 'limits[0].cost', 'raise'],
  ['a cost that is a text', { limits: [{ ...limit, cost: '5' }] }, 'limits[0].cost', 'number'],
  ['a negative cost', { limits: [{ ...limit, cost: -1 }] }, 'limits[0].cost', 'number'],
  ['a key that is no function', { limits: [{ ...limit, by: 'ip' }] }, 'limits[0].by', 'clientIp'],
  [
    'a skip that is no function',
    { limits: [{ ...limit, skip: true }] },
    'limits[0].skip',
    'function',
  ],
  [
    'an outcome that is none',
    { limits: [{ ...limit, countOnly: 'errors' }] },
    'limits[0].countOnly',
    'failures',
  ],
  [
    'outcomes of slots',
    { limits: [{ name: 'slots', policy: concurrency({ limit: 1 }), countOnly: 'failures' }] },
    'limits[0].countOnly',
    'concurrency',
  ],
  [
    'a stage that is none',
    { limits: [{ ...limit, stage: 'later' }] },
    'limits[0].stage',
    'preHandler',
  ],
  ['a mode that is none', { limits: [{ ...limit, mode: 'dry' }] }, 'limits[0].mode', 'shadow'],
  [
    'a list that is none',
    { limits: [{ ...limit, allowList: '10.0.0.0/8' }] },
    'limits[0].allowList',
    'array',
  ],
  [
    'a name in a list',
    { limits: [{ ...limit, denyList: ['localhost'] }] },
    'limits[0].denyList[0]',
    'CIDR',
  ],
  [
    'a prefix too long',
    { limits: [{ ...limit, allowList: ['::1', '10.0.0.0/33'] }] },
    'limits[0].allowList[1]',
    '32',
  ],
  ['headers that are none', { policy, headers: true }, 'headers', 'array'],
  ['a form that is none', { policy, headers: ['draft-8'] }, 'headers[0]', 'draft-11'],
  ['two forms of one field', { policy, headers: ['draft-7', 'draft-11'] }, 'headers', 'drop'],
  ['a wait that is none', { policy, maxWaitMs: -1 }, 'maxWaitMs', 'maxWaitMs'],
  ['a wait of NaN', { policy, maxWaitMs: NaN }, 'maxWaitMs', 'maxWaitMs'],
  ['a crowd that is none', { policy, maxWaiting: 1.5 }, 'maxWaiting', 'whole'],
  [
    'no time for functions',
    { policy, functionTimeoutMs: 0 },
    'functionTimeoutMs',
    'functionTimeoutMs',
  ],
  ['no wait for slots', { policy, concurrencyRetryAfter: 0 }, 'concurrencyRetryAfter', 'whole'],
  ['preflights that are a text', { policy, chargePreflights: 'yes' }, 'chargePreflights', 'true'],
  ['a listener that is none', { policy, onReject: 'log' }, 'onReject', 'function'],
  ['a body that is no function', { policy, problem: { error: 'x' } }, 'problem', 'function'],
  ['a priority that is no function', { policy, priority: 'normal' }, 'priority', 'function'],
  ['priorities that are none', { policy, priorities: [] }, 'priorities', 'names'],
  ['keys shown in a way that is none', { policy, logKeys: true }, 'logKeys', 'hash'],
  ['a store that is none', { policy, store: {} }, 'store', 'memoryStore'],
];

/** What a route cannot change, where the mistake is behind the route's own path, and a word of the mend. */
const ROUTES: readonly [mistake: string, rateLimit: unknown, path: string, mend: string][] = [
  ['an unknown option', { costs: 5 }, 'costs', 'unknown'],
  ["another library's max", { max: 5 }, 'max', 'unknown'],
  ['an inherit that is a text', { inherit: 'no' }, 'inherit', 'true'],
  ['limits that are no array', { limits: limit }, 'limits', 'array'],
  ['a limit that cannot work', { limits: [{ name: 'a b', policy }] }, 'limits[0].name', 'letter'],
  ["a limit of the gate's name", { limits: [{ ...limit }] }, 'limits[0].name', 'taken'],
  ['a negative cost', { cost: -1 }, 'cost', 'whole'],
  ['a cost of NaN', { cost: NaN }, 'cost', 'whole'],
  ['a cost that is a text', { cost: '5' }, 'cost', 'cost'],
  ['a fraction', { cost: 1.5 }, 'cost', 'whole'],
  ['a cost above the quota', { cost: 11 }, 'cost', 'quota'],
  ['a negative cost of a limit', { cost: { plain: -1 } }, 'cost', 'whole'],
  ['a cost of a limit above its quota', { cost: { plain: 11 } }, 'cost', 'quota'],
  ['the cost of a limit that there is not', { cost: { plian: 2 } }, 'cost', 'plian'],
  [
    'more limits than a decision takes',
    {
      limits: Array.from({ length: 16 }, (_, i) => ({ name: `more-${i}`, policy })),
    },
    'limits',
    '16',
  ],
];

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  test.each(GATES)('%s: fails at the start', async (_, gate, path, mend) => {
    const building = serve({ gates: [gate as AppGate] });
    await expect(building).rejects.toBeInstanceOf(TollgateConfigError);
    const error = (await building.catch((reason: unknown) => reason)) as TollgateConfigError;
    expect(error.path).toBe(path);
    expect(error.message).toContain(mend);
  });

  test.each(ROUTES)('a route with %s: fails at the start', async (_, rateLimit, path, mend) => {
    const route = { path: '/search', rateLimit } as Route;
    const building = serve({ gates: [{ limits: [limit] }], routes: [route] });
    await expect(building).rejects.toBeInstanceOf(TollgateConfigError);
    const error = (await building.catch((reason: unknown) => reason)) as TollgateConfigError;
    expect(error.path).toMatch(/^(?:with|\/search config\.rateLimit)\./);
    expect(error.path.slice(-path.length - 1)).toBe(`.${path}`);
    expect(error.message).toContain(mend);
  });

  it('takes a route that costs as much as there is', async () => {
    const routes: readonly Route[] = [
      { path: '/all', rateLimit: { cost: 10 } },
      { path: '/none', rateLimit: { cost: { plain: 0 } } },
      { path: '/same', rateLimit: {} },
      { path: '/usual', rateLimit: true },
    ];
    const plans = { name: 'plans', policy: () => policy };
    await expect(serve({ gates: [{ limits: [limit, plans] }], routes })).resolves.toBeDefined();
  });
});
