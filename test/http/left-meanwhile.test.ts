import { concurrency, fixedWindow } from '@tollgate/core';
import { describe, expect, it } from 'vitest';
import type { App, AppGate } from './app.ts';
import { start } from './clients.ts';
import { LateStore } from './late-store.ts';
import { FRAMEWORKS } from './servers.ts';

const slots = { name: 'slots', policy: concurrency({ limit: 3 }) } as const;
const policy = fixedWindow({ limit: 10, window: '60s' });
const window = { name: 'window', policy } as const;

/** Functions of the options that answer when they are told to. */
class Pending {
  private readonly asked: (() => void)[] = [];

  readonly answering =
    <T>(value: T) =>
    (): Promise<T> =>
      new Promise((resolve) => this.asked.push(() => resolve(value)));

  get count(): number {
    return this.asked.length;
  }

  answer(): void {
    for (const answer of this.asked.splice(0)) answer();
  }
}

/** Applications that wait for a function before they ask the store. */
const WAITS: readonly (readonly [string, (pending: Pending) => App])[] = [
  ['a key', ({ answering }) => of({ limits: [slots, { ...window, by: answering('127.0.0.1') }] })],
  ['a cost', ({ answering }) => of({ limits: [slots, { ...window, cost: answering(2) }] })],
  [
    'a policy',
    ({ answering }) => of({ limits: [slots, { ...window, policy: answering(policy) }] }),
  ],
  ['a skip', ({ answering }) => of({ limits: [slots, { ...window, skip: answering(false) }] })],
  [
    'the priority',
    ({ answering }) => of({ limits: [slots, window], priority: answering('normal') }),
  ],
  [
    "a route's cost",
    ({ answering }) => ({
      gates: [{ limits: [slots, window] }],
      routes: [{ path: '/', rateLimit: { cost: answering({ window: 2 }) } }],
    }),
  ],
];

function of(gate: AppGate): App {
  return { gates: [gate], routes: [{ path: '/' }] };
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** Has a client leave while its request waits; tells whether the handler was reached, what is left, and mistakes. */
  async function leaving(
    app: App,
    waits: () => number,
    goOn: () => void,
  ): Promise<() => Promise<unknown>> {
    let handled = 0;
    const [route] = app.routes ?? [];
    const handler = (): undefined => void handled++;
    const { url, gate, errors, http } = await serve({
      ...app,
      routes: [{ path: '/', ...route, handler }],
    });
    const closed = new Promise((resolve) => {
      http.on('connection', (socket) => socket.on('close', resolve));
    });
    const request = start(url);
    await expect.poll(waits).toBe(1);
    request.destroy();
    await closed;
    goOn();
    return async () => {
      const keys = { slots: '127.0.0.1', window: '127.0.0.1' };
      const { verdicts } = await gate.limiter.peek(keys, { policies: { window: policy } });
      return { handled, errors, left: verdicts.map(({ remaining }) => remaining) };
    };
  }

  it.each(WAITS)('serves and charges no client that left while %s was awaited', async (_, make) => {
    const pending = new Pending();
    const outcome = await leaving(
      make(pending),
      () => pending.count,
      () => pending.answer(),
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(await outcome()).toEqual({ handled: 0, errors: [], left: [3, 10] });
  });

  it('serves and charges no client that left while a charge for failures alone was under way', async () => {
    const store = new LateStore();
    store.isHeldUp = true;
    const outcome = await leaving(
      of({ store, limits: [slots, { ...window, countOnly: 'failures' }] }),
      () => store.underway.length,
      () => {
        store.isHeldUp = false;
        store.arrive();
      },
    );
    await expect.poll(outcome).toEqual({ handled: 0, errors: [], left: [3, 10] });
  });
});
