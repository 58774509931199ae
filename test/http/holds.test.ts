import { type Decision, leakyBucket } from '@tollgate/core';
import { describe, expect, it } from 'vitest';
import { type AppGate, header } from './app.ts';
import { ask, inTurn, start, tally, together } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';

const DRIP_MS = 40;

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** An app behind a leaky bucket, whose clock stands still while requests are held in real time. */
  async function dripping(per: number | string, capacity: number, more: AppGate = {}) {
    const { store } = new Clock();
    const policy = leakyBucket({ capacity, rate: 1, per });
    const served: number[] = [];
    const decisions: (Decision | undefined)[] = [];
    const by = header('x-user');
    const server = await serve({
      gates: [
        {
          store,
          limits: [{ name: 'queue', policy, by: (request) => by(request) ?? 'ada' }],
          ...more,
        },
      ],
      routes: [
        {
          path: '/',
          handler: ({ request }) => {
            served.push(performance.now());
            decisions.push(request.rateLimit);
            return {};
          },
        },
      ],
    });
    const left = async (): Promise<number> =>
      (await server.gate.limiter.peek({ queue: 'ada' })).remaining;
    return { ...server, served, decisions, left };
  }

  it('lets requests through one by one, in the pace of the bucket', async () => {
    const { url, served, decisions } = await dripping(DRIP_MS, 4);
    const began = performance.now();
    const statuses = (await Promise.all(together(url, 6))).map(({ status }) => status);
    expect(tally(statuses)).toEqual({ 200: 4, 429: 2 });
    served.forEach((at, i) => expect(at - began).toBeGreaterThanOrEqual(i * DRIP_MS));
    expect(decisions.map((decision) => decision?.delayMs)).toEqual([0, 40, 80, 120]);
  });

  it('serves the first at once, and others without waiting for each other', async () => {
    const { url } = await dripping('1h', 10, { maxWaitMs: 1_000 });
    for (const user of ['ada', 'bob', 'eve']) {
      expect(await inTurn(url, 1, { headers: { 'x-user': user } })).toEqual([200]);
    }
  });

  it('gives back the place of a client that leaves', async () => {
    const { url, served, left } = await dripping(60_000, 5, { maxWaitMs: 600_000 });
    expect(await inTurn(url, 1)).toEqual([200]);
    const request = start(url);
    await expect.poll(left).toBe(3);
    request.destroy();
    await expect.poll(left).toBe(4);
    expect(served).toHaveLength(1);
  });

  it('holds nobody longer than it may, and takes nothing for it', async () => {
    const { url, served, left } = await dripping('1m', 5, { maxWaitMs: 5_000 });
    expect(await inTurn(url, 1)).toEqual([200]);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '55']);
    expect(refusal.headers.get('ratelimit-remaining')).toBe('4');
    expect(await left()).toBe(4);
    expect(served).toHaveLength(1);
  });

  it('holds no more than it may', async () => {
    const { url, left } = await dripping(60_000, 5, { maxWaitMs: 600_000, maxWaiting: 1 });
    expect(await inTurn(url, 1)).toEqual([200]);
    const held = start(url);
    await expect.poll(left).toBe(3);
    const refusal = await ask(url);
    expect(refusal.status).toBe(503);
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await left()).toBe(3);
    held.destroy();
    await expect.poll(left).toBe(4);
  });
});
