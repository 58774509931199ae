import { fixedWindow } from '@tollgate/core';
import { describe, expect, it } from 'vitest';
import { type AppGate, header } from './app.ts';
import { ask, start, tally, together } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { Turnstile } from './turnstile.ts';

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  /** An app that counts failures up to a limit, whose handler a test holds and releases. */
  async function serving(limit: number, options: AppGate = {}, more: AppGate['limits'] = []) {
    const { store } = new Clock();
    const turnstile = new Turnstile();
    /** Requests that came as far as their key. */
    let asked = 0;
    const by = (request: Parameters<ReturnType<typeof header>>[0]): string => {
      asked++;
      return header('x-user')(request) ?? 'ada';
    };
    const failures = {
      name: 'failures',
      policy: fixedWindow({ limit, window: '60s' }),
      by,
      countOnly: 'failures',
    } as const;
    const server = await serve({
      gates: [{ store, maxWaitMs: 10_000, ...options, limits: [failures, ...more] }],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    const remaining = async (): Promise<number> =>
      (await server.gate.limiter.peek({ failures: 'ada' })).remaining;
    return { ...server, turnstile, remaining, asked: () => asked };
  }

  /** Sends a request by a name of its own, and goes on when it is where it waits. */
  async function send(
    server: { url: string; asked: () => number },
    name: string,
    more: Record<string, string> = {},
  ) {
    const before = server.asked();
    const headers = { 'x-request': name, ...more };
    const status = ask(server.url, { headers }).then((reply) => reply.status);
    await expect.poll(server.asked, { interval: 2 }).toBe(before + 1);
    return { status };
  }

  it('serves all of 20 successes at once under a limit of 5 failures', async () => {
    const { url, turnstile, remaining, asked } = await serving(5);
    const replies = together(url, 20);
    await expect.poll(asked).toBe(20);
    await expect.poll(() => turnstile.arrived).toBe(5);
    for (let served = 0; served < 20; served++) {
      await expect.poll(() => turnstile.holding, { interval: 2 }).toBeGreaterThan(0);
      expect(turnstile.holding).toBeLessThanOrEqual(5);
      turnstile.release(1);
    }
    const statuses = (await Promise.all(replies)).map(({ status }) => status);
    expect(tally(statuses)).toEqual({ 200: 20 });
    await expect.poll(remaining).toBe(5);
  });

  it('lets no more than 5 of 20 failures at once through', async () => {
    const { url, turnstile, remaining, asked } = await serving(5);
    const replies = together(url, 20);
    await expect.poll(asked).toBe(20);
    await expect.poll(() => turnstile.arrived).toBe(5);
    turnstile.release(5, 401);
    const answers = await Promise.all(replies);
    expect(tally(answers.map(({ status }) => status))).toEqual({ 401: 5, 429: 15 });
    expect(turnstile.arrived).toBe(5);
    expect(await remaining()).toBe(0);
    for (const { status, headers } of answers) {
      expect(headers.get('retry-after')).toBe(status === 429 ? '60' : null);
    }
  });

  it('counts exactly the failures of a mixed crowd', async () => {
    const { url, turnstile, remaining } = await serving(3);
    const replies = together(url, 12);
    let failures = 0;
    for (let i = 0; failures < 2; i++) {
      await expect.poll(() => turnstile.holding, { interval: 2 }).toBeGreaterThan(0);
      const fails = i % 3 === 2;
      turnstile.release(1, fails ? 500 : 200);
      if (fails) failures++;
    }
    while (turnstile.arrived < 12 || turnstile.holding > 0) {
      await expect.poll(() => turnstile.holding, { interval: 2 }).toBeGreaterThan(0);
      turnstile.release(1);
    }
    const statuses = (await Promise.all(replies)).map(({ status }) => status);
    expect(tally(statuses)).toEqual({ 200: 10, 500: 2 });
    await expect.poll(remaining).toBe(1);
  });

  it('serves those who wait in the order in which they came', async () => {
    const server = await serving(2);
    const { turnstile } = server;
    const sent: { status: Promise<number> }[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e']) sent.push(await send(server, name));
    await expect.poll(() => turnstile.arrived).toBe(2);
    // A failure wakes the first in line, for whom there is still no room: its place must stay the first.
    turnstile.release(1, 500);
    await sent[0]?.status;
    turnstile.release(1);
    for (let arrived = 3; arrived <= 5; arrived++) {
      await expect.poll(() => turnstile.arrived, { interval: 2 }).toBe(arrived);
      turnstile.release(1);
    }
    const statuses = await Promise.all(sent.map(({ status }) => status));
    expect(statuses).toEqual([500, 200, 200, 200, 200]);
    expect(turnstile.arrivals).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('gives the place of a client that left to the next in line', async () => {
    const server = await serving(2);
    const { url, turnstile, asked } = server;
    const sent = [await send(server, 'a'), await send(server, 'b')];
    const leaving = start(url, { 'x-request': 'c' });
    await expect.poll(asked).toBe(3);
    sent.push(await send(server, 'd'));
    const closed = new Promise((resolve) => leaving.on('close', resolve));
    leaving.destroy();
    await closed;
    turnstile.release(1);
    // The other of the first two is still being served.
    await expect.poll(() => turnstile.arrived, { timeout: 2_000 }).toBe(3);
    turnstile.release(2);
    expect(await Promise.all(sent.map(({ status }) => status))).toEqual([200, 200, 200]);
    expect(turnstile.arrivals).toEqual(['a', 'b', 'd']);
  });

  it('gives the place of one that another limit refuses to the next in line', async () => {
    const side = {
      name: 'side',
      policy: fixedWindow({ limit: 1, window: '60s' }),
      by: header('x-side'),
    };
    const server = await serving(2, {}, [side]);
    const { turnstile } = server;
    const sent = [await send(server, 'a'), await send(server, 'b')];
    const refused = await send(server, 'c', { 'x-side': 'left' });
    sent.push(await send(server, 'd'));
    sent.push(await send(server, 'e', { 'x-user': 'bob', 'x-side': 'left' }));
    await expect.poll(() => turnstile.arrived).toBe(3);
    turnstile.release(1);
    expect(await refused.status).toBe(429);
    await expect.poll(() => turnstile.arrived, { timeout: 2_000 }).toBe(4);
    turnstile.release(3);
    expect(await Promise.all(sent.map(({ status }) => status))).toEqual([200, 200, 200, 200]);
  });

  it('does not count a client that left among those who wait', async () => {
    const server = await serving(1, { maxWaiting: 1 });
    const { url, turnstile, asked } = server;
    const first = await send(server, 'a');
    for (const name of ['b', 'c', 'd']) {
      const before = asked();
      const leaving = start(url, { 'x-request': name });
      await expect.poll(asked, { interval: 2 }).toBe(before + 1);
      const closed = new Promise((resolve) => leaving.on('close', resolve));
      leaving.destroy();
      await closed;
    }
    const last = await send(server, 'e');
    turnstile.release(1);
    await expect.poll(() => turnstile.arrived).toBe(2);
    turnstile.release(1);
    expect([await first.status, await last.status]).toEqual([200, 200]);
    expect(turnstile.arrivals).toEqual(['a', 'e']);
  });

  it('tells of one decision for a request that waited', async () => {
    const told: boolean[] = [];
    const server = await serving(1, { onDecision: ({ allowed }) => told.push(allowed) });
    const { turnstile } = server;
    const sent = [await send(server, 'a'), await send(server, 'b'), await send(server, 'c')];
    for (let arrived = 1; arrived <= 3; arrived++) {
      await expect.poll(() => turnstile.arrived, { interval: 2 }).toBe(arrived);
      turnstile.release(1);
    }
    expect(await Promise.all(sent.map(({ status }) => status))).toEqual([200, 200, 200]);
    expect(told).toEqual([true, true, true]);
  });

  it('refuses when the wait ends', async () => {
    const server = await serving(1, { maxWaitMs: 30 });
    const { url, turnstile } = server;
    const held = ask(url);
    await expect.poll(() => turnstile.arrived).toBe(1);
    const refusal = await ask(url);
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '60']);
    turnstile.release(1);
    expect((await held).status).toBe(200);
    expect(turnstile.arrived).toBe(1);
  });

  it('does not wait at all where it may not', async () => {
    for (const options of [{ maxWaitMs: 0 }, { maxWaiting: 0 }]) {
      const { url, turnstile } = await serving(1, options);
      const held = ask(url);
      await expect.poll(() => turnstile.arrived).toBe(1);
      const began = performance.now();
      expect((await ask(url)).status).toBe(429);
      expect(performance.now() - began).toBeLessThan(2_000);
      turnstile.release(1);
      await held;
    }
  });

  it('lets no more wait than it may', async () => {
    const { url, turnstile, asked } = await serving(2, { maxWaiting: 3 });
    const replies = together(url, 9);
    await expect.poll(asked).toBe(9);
    for (let arrived = 2; arrived <= 5; arrived++) {
      await expect.poll(() => turnstile.arrived, { interval: 2 }).toBe(arrived);
      turnstile.release(1);
    }
    turnstile.release(1);
    const statuses = (await Promise.all(replies)).map(({ status }) => status);
    expect(tally(statuses)).toEqual({ 200: 5, 429: 4 });
  });

  it('refuses those who wait at once when the gate is closed, and lets others finish', async () => {
    const { url, turnstile, gate, asked } = await serving(1);
    const held = ask(url);
    await expect.poll(() => turnstile.arrived).toBe(1);
    const waiting = together(url, 3);
    await expect.poll(asked).toBe(4);
    const began = performance.now();
    await gate.close();
    const statuses = (await Promise.all(waiting)).map(({ status }) => status);
    expect(statuses).toEqual([503, 503, 503]);
    expect(performance.now() - began).toBeLessThan(5_000);
    turnstile.release(1);
    expect((await held).status).toBe(200);
    expect(turnstile.arrived).toBe(1);
  });

  it('keeps nobody waiting for the outcomes of others', async () => {
    const { url, turnstile } = await serving(1);
    const held = ask(url, { headers: { 'x-user': 'ada' } });
    await expect.poll(() => turnstile.arrived).toBe(1);
    const other = ask(url, { headers: { 'x-user': 'bob' } });
    await expect.poll(() => turnstile.arrived).toBe(2);
    turnstile.release(2);
    expect([(await held).status, (await other).status]).toEqual([200, 200]);
  });

  it('does not wait for what another limit refuses, and charges nothing', async () => {
    const all = { name: 'all', policy: fixedWindow({ limit: 1, window: '60s' }) };
    const { url, turnstile, remaining } = await serving(5, {}, [all]);
    const held = ask(url);
    await expect.poll(() => turnstile.arrived).toBe(1);
    expect((await ask(url)).status).toBe(429);
    expect(await remaining()).toBe(4);
    turnstile.release(1);
    expect((await held).status).toBe(200);
    await expect.poll(remaining).toBe(5);
  });
});
