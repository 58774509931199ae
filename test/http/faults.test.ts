import { fixedWindow } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, Route } from './app.ts';
import { ask, inTurn } from './clients.ts';
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
});
