import { fixedWindow } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import type { AppGate, Route } from './app.ts';
import { ask, inTurn, start } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FRAMEWORKS } from './servers.ts';

const policy = fixedWindow({ limit: 1_000, window: '60s' });

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
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

  it('answers with an error once it is closed, and may be closed again', async () => {
    let handled = 0;
    const { url, gate, errors } = await serve({
      gates: [{ store: new Clock().store, policy }],
      routes: [{ path: '/', handler: () => ({ body: `${++handled}` }) }],
    });
    expect(await inTurn(url, 1)).toEqual([200]);
    await gate.close();
    await gate.close();
    expect(await inTurn(url, 2)).toEqual([503, 503]);
    expect([handled, errors.map((error) => (error as { code: string }).code)]).toEqual([
      1,
      ['TOLLGATE_CLOSED', 'TOLLGATE_CLOSED'],
    ]);
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
