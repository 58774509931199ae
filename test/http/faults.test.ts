import { fixedWindow } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, Route } from './app.ts';
import { ask, inTurn, start } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FAILURES, type Misbehaviour, returning } from './misbehaviour.ts';
import { FRAMEWORKS } from './servers.ts';

const TIMEOUT_MS = 40;
const policy = fixedWindow({ limit: 1_000, window: '60s' });

interface Subject {
  readonly option: string;
  /** The name that the log knows it by. */
  readonly logged: string;
  /** A gate and a route whose option is the function. */
  readonly made: (fn: never) => { readonly gate: AppGate; readonly rateLimit?: Route['rateLimit'] };
  readonly wrong: readonly Misbehaviour[];
}

const SUBJECTS: readonly Subject[] = [
  {
    option: 'by',
    logged: 'login',
    made: (by) => ({ gate: { limits: [{ name: 'login', policy, by }] } }),
    wrong: returning(null, '', NaN, {}, [], 5, true),
  },
  {
    option: 'cost',
    logged: 'login',
    made: (cost) => ({ gate: { limits: [{ name: 'login', policy, cost }] } }),
    wrong: returning(
      undefined,
      null,
      '',
      '5',
      NaN,
      {},
      [],
      -5,
      -0.5,
      1.5,
      Infinity,
      2 ** 53,
      5n,
      true,
    ),
  },
  {
    option: 'policy',
    logged: 'login',
    made: (fn) => ({ gate: { limits: [{ name: 'login', policy: fn }] } }),
    wrong: returning(
      undefined,
      null,
      '',
      NaN,
      {},
      5,
      { algorithm: 'nope' },
      { ...policy, limit: NaN },
      { ...policy, max: 5 },
    ),
  },
  {
    option: 'skip',
    logged: 'login',
    made: (skip) => ({ gate: { limits: [{ name: 'login', policy, skip }] } }),
    wrong: [],
  },
  {
    option: 'priority',
    logged: 'priority',
    made: (priority) => ({ gate: { priority, limits: [{ name: 'login', policy }] } }),
    wrong: returning(null, '', NaN, {}, 5, 'unknown'),
  },
  {
    option: 'the cost of a route',
    logged: 'the cost of the route',
    made: (cost) => ({ gate: { limits: [{ name: 'login', policy }] }, rateLimit: { cost } }),
    wrong: returning(
      undefined,
      null,
      '',
      '5',
      NaN,
      -1,
      1.5,
      [5],
      { login: -1 },
      { login: null },
      { unknown: 1 },
    ),
  },
];

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  test.each(SUBJECTS)(
    'a mistake of $option is an error, once, and lets nobody through',
    async ({ made, wrong, logged }) => {
      const log = new Log();
      const { store } = new Clock();
      let handled = 0;
      let act: Misbehaviour['act'] = () => undefined;
      const { gate, rateLimit } = made((() => act()) as never);
      const { url, errors } = await serve({
        gates: [{ store, logger: log, functionTimeoutMs: TIMEOUT_MS, ...gate }],
        routes: [
          {
            path: '/',
            ...(rateLimit !== undefined && { rateLimit }),
            handler: () => ({ body: `${++handled}` }),
          },
        ],
      });
      const found: unknown[] = [];
      const expected: unknown[] = [];
      for (const each of [...FAILURES, ...wrong]) {
        act = each.act;
        const before = errors.length;
        const { status } = await ask(url);
        const codes = errors
          .slice(before)
          .map((error) => (error as { code?: unknown } | null)?.code);
        found.push([each.how, status, codes]);
        expected.push([each.how, 500, [expect.stringMatching(/^TOLLGATE_/)]]);
      }
      expect(found).toEqual(expected);
      expect(handled).toBe(0);
      // In Express the gate itself is passed before a route is met.
      expect(log.faulty).toContain(logged);
    },
  );

  it('answers within the time that a function may take', async () => {
    const { url, errors } = await serve({
      gates: [
        {
          store: new Clock().store,
          functionTimeoutMs: TIMEOUT_MS,
          limits: [{ name: 'login', policy, by: () => new Promise<string>(() => undefined) }],
        },
      ],
    });
    const began = performance.now();
    expect((await ask(url)).status).toBe(500);
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(errors[0]).toMatchObject({ code: 'TOLLGATE_FUNCTION', statusCode: 500 });
    expect(String(errors[0])).toContain(`the by of login took longer than ${TIMEOUT_MS} ms`);
  });

  it('lets a function that is late say what it likes', async () => {
    const late: (() => void)[] = [];
    const by = (): Promise<string> =>
      new Promise((resolve, reject) => {
        late.push(
          late.length === 0 ? () => resolve('ada') : () => reject(new Error('too late to matter')),
        );
      });
    const { store } = new Clock();
    const { url, errors } = await serve({
      gates: [{ store, functionTimeoutMs: TIMEOUT_MS, limits: [{ name: 'login', policy, by }] }],
    });
    expect(await inTurn(url, 2)).toEqual([500, 500]);
    for (const settle of late) settle();
    await new Promise(setImmediate);
    expect([late.length, errors.length, store.size]).toEqual([2, 2, 0]);
  });

  it('charges none of several limits when one of them cannot be asked', async () => {
    const { store } = new Clock();
    const { url } = await serve({
      gates: [
        {
          store,
          limits: [
            { name: 'fine', policy },
            { name: 'broken', policy, by: () => Promise.reject(new Error('broken')) },
          ],
        },
      ],
    });
    expect((await ask(url)).status).toBe(500);
    expect(store.size).toBe(0);
  });

  /** A failure at once beside a rejection that comes later: nobody may be left with the rejection. */
  test.each<[string, AppGate, Route['rateLimit']?]>([
    [
      'two keys',
      {
        limits: [
          { name: 'late', policy, by: () => Promise.reject(new Error('late')) },
          {
            name: 'early',
            policy,
            by: () => {
              throw new Error('early');
            },
          },
        ],
      },
    ],
    [
      'a key and the policy',
      {
        limits: [
          {
            name: 'both',
            by: () => Promise.reject(new Error('late')),
            policy: () => {
              throw new Error('early');
            },
          },
        ],
      },
    ],
    [
      'a key and the cost',
      {
        limits: [
          {
            name: 'both',
            policy,
            by: () => Promise.reject(new Error('late')),
            cost: () => {
              throw new Error('early');
            },
          },
        ],
      },
    ],
    [
      'the priority and the cost of a route',
      { limits: [{ name: 'plain', policy }], priority: () => Promise.reject(new Error('late')) },
      {
        cost: () => {
          throw new Error('early');
        },
      },
    ],
  ])('handles the failures of %s at once', async (_, gate, rateLimit = true) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', note);
    const { url, errors } = await serve({
      gates: [{ store: new Clock().store, ...gate }],
      routes: [{ path: '/', rateLimit }],
    });
    expect(await inTurn(url, 2)).toEqual([500, 500]);
    await new Promise(setImmediate);
    process.off('unhandledRejection', note);
    expect([errors.length, unhandled]).toEqual([2, []]);
  });

  it('has an error handler of the application decide what to answer', async () => {
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [{ name: 'login', policy, by: () => Promise.reject(new Error('no session')) }],
        },
      ],
      onError: (error) => ({ status: 503, body: (error as { code: string }).code }),
    });
    const reply = await ask(url);
    expect([reply.status, reply.text]).toEqual([503, 'TOLLGATE_FUNCTION']);
  });

  it('does not serve a request whose client left while its key was looked up', async () => {
    let handled = 0;
    let looking: ((key: string) => void) | undefined;
    const { store } = new Clock();
    const { url, errors } = await serve({
      gates: [
        {
          store,
          limits: [
            { name: 'user', policy, by: () => new Promise((resolve) => (looking = resolve)) },
          ],
        },
      ],
      before: [
        ({ response }) => {
          response.on('close', () => looking?.('ada'));
          return undefined;
        },
      ],
      routes: [{ path: '/', handler: () => ({ body: `${++handled}` }) }],
    });
    const request = start(url);
    await expect.poll(() => looking).toBeDefined();
    request.destroy();
    await expect.poll(() => store.size).toBe(0);
    expect([handled, errors]).toEqual([0, []]);
  });

  test.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['rejects', () => Promise.reject(new Error('broken'))],
  ])('logs that onDecision %s, and goes on', async (_, notify) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', note);
    const log = new Log();
    const { url } = await serve({
      gates: [{ store: new Clock().store, policy, logger: log, onDecision: notify as () => void }],
    });
    expect((await ask(url)).status).toBe(200);
    await new Promise(setImmediate);
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
    expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });
});
