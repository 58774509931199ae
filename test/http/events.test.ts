import { type DecisionEvent, fixedWindow, leakyBucket, loadShedder, onEvent } from '@tollgate/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { header } from './app.ts';
import { ask, inTurn, start } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const policy = fixedWindow({ limit: 2, window: '60s' });

/** What decisions are told until the test is over. */
function told(): DecisionEvent[] {
  const events: DecisionEvent[] = [];
  onTestFinished(onEvent('tollgate:decision', (event) => void events.push(event)));
  return events;
}

function reasonsOf(events: readonly DecisionEvent[]): string[] {
  return events.map(({ decision: { reason } }) => reason);
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('tells of each request that was decided, and of no other', async () => {
    const events = told();
    const { url, gate } = await serve({
      gates: [{ store: new Clock().store, policy }],
      routes: [{ path: '/health', rateLimit: false }, { path: '/' }],
    });
    expect(await inTurn(url, 3)).toEqual([200, 200, 429]);
    expect(await inTurn(`${url}/health`, 2)).toEqual([200, 200]);
    expect(reasonsOf(events)).toEqual(['ok', 'ok', 'limited']);
    for (const { limiter } of events) expect(limiter).toBe(gate.limiter);
  });

  it('tells of what a deny list refuses, and of what is decided outside the flow', async () => {
    const events = told();
    const onDecision: string[] = [];
    const denyList = ['127.0.0.1'];
    const { url, gate, http } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [{ name: 'ip', policy, denyList }],
          onDecision: ({ reason }) => onDecision.push(reason),
        },
      ],
    });
    expect(await inTurn(url, 1)).toEqual([403]);
    http.on('upgrade', async (request, socket) => {
      await gate.consume(request);
      socket.destroy();
    });
    const upgrade = start(url, { connection: 'upgrade', upgrade: 'websocket' });
    await expect.poll(() => events.length).toBe(2);
    upgrade.destroy();
    expect(reasonsOf(events)).toEqual(['denied', 'denied']);
    expect(onDecision).toEqual(['denied', 'denied']);
    expect(events[0]?.decision).toMatchObject({
      degraded: false,
      verdicts: [{ name: 'ip', reason: 'denied', source: 'none' }],
    });
  });

  it('tells of what a shedder refuses', async () => {
    const events = told();
    const shedder = loadShedder({ maxUtilization: 1e-6, sampleMs: 10, restoreMs: '1h' });
    const { url } = await serve({ gates: [{ store: new Clock().store, policy, shedder }] });
    await ask(url);
    await expect.poll(() => shedder.level, { timeout: 10_000 }).toBeGreaterThan(0.999);
    events.length = 0;
    expect(await inTurn(url, 2)).toEqual([503, 503]);
    expect(reasonsOf(events)).toEqual(['overloaded', 'overloaded']);
  });

  it('tells of a request that cannot be held as refused, and not as admitted before', async () => {
    const events = told();
    const queue = leakyBucket({ capacity: 5, rate: 1, per: '1h' });
    const { url } = await serve({
      gates: [{ store: new Clock().store, limits: [{ name: 'queue', policy: queue }] }],
    });
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect(reasonsOf(events)).toEqual(['ok', 'limited']);
  });

  it('tells of a reservation that counts failures once, when it is known', async () => {
    const events = told();
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [{ name: 'login', policy, by: header('x-user'), countOnly: 'failures' }],
        },
      ],
      routes: [{ path: '/', handler: () => ({ status: 401 }) }],
    });
    const headers = { 'x-user': 'ada' };
    expect(await inTurn(url, 3, { headers })).toEqual([401, 401, 429]);
    expect(reasonsOf(events)).toEqual(['ok', 'ok', 'limited']);
  });

  it('hashes keys in audit events where the gate does in its log', async () => {
    const keys: unknown[] = [];
    onTestFinished(onEvent('tollgate:reset', (event) => void keys.push(event.keys)));
    const { gate } = await serve({
      gates: [{ store: new Clock().store, policy, logKeys: 'hash' }],
    });
    await gate.limiter.reset({ default: '192.0.2.7' });
    expect(keys).toEqual([{ default: expect.stringMatching(/^[\w-]{22}$/) }]);
  });
});
