import { createServer, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type Decision, fixedWindow, type LoadShedder, loadShedder } from '@tollgate/core';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { type AppGate, header, type Route } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FRAMEWORKS } from './servers.ts';

const policy = fixedWindow({ limit: 1_000, window: '60s' });
const priority: AppGate['priority'] = (request) => header('x-priority')(request);
const as = (name: string): RequestInit => ({ headers: { 'x-priority': name } });

/** A shedder for which a loop that does anything at all does too much. */
function touchy(): LoadShedder {
  return loadShedder({ maxUtilization: 1e-6, sampleMs: 10, restoreMs: '1h' });
}

/** Sends a request, and waits until all of its priority are refused. */
async function overload(url: string, shedder: LoadShedder, init?: RequestInit): Promise<void> {
  await ask(url, init);
  await expect.poll(() => shedder.level, { timeout: 10_000, interval: 20 }).toBeGreaterThan(0.999);
}

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('refuses with 503 before any limit is asked, and says so everywhere', async () => {
    const shedder = touchy();
    const log = new Log();
    const told: Decision[] = [];
    const { url, gate } = await serve({
      gates: [
        {
          store: new Clock().store,
          policy,
          shedder,
          logger: log,
          logKeys: 'hash',
          onReject: (_, decision) => void told.push(decision),
        },
      ],
    });
    await overload(url, shedder);
    const { remaining } = gate.limiter.peek({ default: '127.0.0.1' }) as Decision;
    const reply = await ask(url);
    expect(reply.status).toBe(503);
    expect(reply.headers.get('content-type')).toBe('application/problem+json');
    expect(JSON.parse(reply.text)).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      title: 'Request cannot be satisfied due to temporary server capacity constraints',
      status: 503,
      'violated-policies': [],
    });
    expect(reply.headers.get('retry-after')).toMatch(/^3[56]\d\d$/);
    expect(reply.headers.get('cache-control')).toBe('no-store');
    // No limit says anything, since none was asked.
    expect([...reply.headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
    expect((gate.limiter.peek({ default: '127.0.0.1' }) as Decision).remaining).toBe(remaining);

    expect(told.at(-1)).toMatchObject({ allowed: false, reason: 'overloaded', verdicts: [] });
    const refused = told.length;
    expect(gate.rejections()).toMatchObject({
      'load shedder': { count: refused, keys: [{ key: 'normal', count: refused, error: 0 }] },
    });
    expect(log.lines).toEqual([
      {
        level: 'warn',
        details: {
          priority: 'normal',
          reason: 'overloaded',
          level: expect.any(Number) as number,
          utilization: expect.any(Number) as number,
          delayMs: expect.any(Number) as number,
          retryAfterMs: expect.any(Number) as number,
          refused: 1,
        },
        message: 'request refused',
      },
    ]);
  });

  it('refuses the lowest priorities, never the highest, nor routes without a limit', async () => {
    const shedder = touchy();
    const routes: Route[] = [{ path: '/' }, { path: '/health', rateLimit: false }];
    const { url, errors } = await serve({
      gates: [{ store: new Clock().store, policy, shedder, priority }],
      routes,
    });
    await overload(url, shedder, as('sheddable'));
    expect(await inTurn(url, 5, as('critical'))).toEqual([200, 200, 200, 200, 200]);
    expect(await inTurn(url, 2, as('sheddable'))).toEqual([503, 503]);
    expect(await inTurn(`${url}/health`, 3, as('sheddable'))).toEqual([200, 200, 200]);
    expect((await ask(url, as('vip'))).status).toBe(500);
    expect(errors).toMatchObject([{ code: 'TOLLGATE_ARGUMENT' }]);
  });

  it('takes priorities that are known later', async () => {
    const shedder = touchy();
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          policy,
          shedder,
          priority: async (request) => header('x-priority')(request),
        },
      ],
    });
    await overload(url, shedder, as('sheddable'));
    expect((await ask(url, as('critical'))).status).toBe(200);
    expect((await ask(url, as('sheddable'))).status).toBe(503);
  });

  it('works without any limit, and tells nobody that there is none', async () => {
    const shedder = touchy();
    const log = new Log();
    const { url } = await serve({
      gates: [{ limits: [], shedder, priority, logger: log }],
    });
    await overload(url, shedder, as('sheddable'));
    expect((await ask(url, as('sheddable'))).status).toBe(503);
    expect((await ask(url, as('critical'))).status).toBe(200);
    expect(log.codes).toEqual([]);
  });

  it('gives back what an earlier gate charged', async () => {
    const shedder = touchy();
    const { store } = new Clock();
    const { url, gate } = await serve({
      gates: [
        { store, policy },
        { limits: [], shedder },
      ],
    });
    await overload(url, shedder);
    const left = (): number => (gate.limiter.peek({ default: '127.0.0.1' }) as Decision).remaining;
    const before = left();
    const reply = await ask(url);
    expect(reply.status).toBe(503);
    expect(reply.headers.get('retry-after')).not.toBeNull();
    expect(reply.headers.get('ratelimit-remaining')).toBe(`${before}`);
    expect(left()).toBe(before);
  });

  it('lets the application answer, and hands it the refusal', async () => {
    const shedder = touchy();
    const { url } = await serve({
      gates: [{ limits: [], shedder }],
      onError: (error) => {
        const { statusCode, decision } = error as { statusCode: number; decision: Decision };
        return { status: statusCode, body: `${decision.reason}, ${decision.verdicts.length}` };
      },
    });
    await overload(url, shedder);
    const reply = await ask(url);
    expect([reply.status, reply.text]).toEqual([503, 'overloaded, 0']);
    expect(reply.headers.get('retry-after')).not.toBeNull();
  });

  it('is asked once by gates that share it and routes that charge more', async () => {
    const shedder = touchy();
    const { store } = new Clock();
    const routes: Route[] = [{ path: '/' }, { path: '/dear', rateLimit: { cost: 5 } }];
    const { url, gate } = await serve({
      gates: [
        { store, policy, shedder, priority },
        { store, limits: [{ name: 'more', policy }], shedder, priority },
      ],
      routes,
    });
    await overload(url, shedder, as('sheddable'));
    const before = gate.rejections()['load shedder']?.count ?? 0;
    expect(await inTurn(`${url}/dear`, 3, as('sheddable'))).toEqual([503, 503, 503]);
    expect(await inTurn(`${url}/dear`, 3, as('critical'))).toEqual([200, 200, 200]);
    expect(gate.rejections()['load shedder']?.count).toBe(before + 3);
  });

  it('refuses what does not come through the framework', async () => {
    const shedder = touchy();
    const { url, gate } = await serve({
      gates: [{ store: new Clock().store, policy, shedder, priority }],
    });
    await overload(url, shedder, as('sheddable'));
    const decisions: Decision[] = [];
    const other = createServer((request: IncomingMessage, response) => {
      void Promise.resolve(gate.consume(request)).then((decision) => {
        decisions.push(decision);
        response.end();
      });
    });
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    const otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    await ask(otherUrl, as('sheddable'));
    await ask(otherUrl, as('critical'));
    expect(decisions.map(({ reason }) => reason)).toEqual(['overloaded', 'ok']);
  });

  test.each<[mistake: string, gate: object, path: string, mend: string]>([
    ['the function itself', { shedder: loadShedder }, 'shedder', 'loadShedder()'],
    ['options', { shedder: { maxUtilization: 0.5 } }, 'shedder', 'loadShedder()'],
    ['one priority', { shedder: loadShedder(), priorities: ['all'] }, 'priorities', 'lower'],
  ])('fails at the start with %s', async (_, gate, path, mend) => {
    const building = serve({ gates: [{ policy, ...gate }] });
    await expect(building).rejects.toMatchObject({
      name: 'TollgateConfigError',
      path,
      message: expect.stringContaining(mend) as string,
    });
  });
});
