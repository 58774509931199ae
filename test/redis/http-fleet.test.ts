import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, concurrency, slidingLog } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { ask, tally } from '../http/clients.ts';
import { build } from '../readme/built.ts';
import { HttpFleet, type Member } from './http-fleet.ts';
import { RedisServer } from './server.ts';

const MEMBERS = 4;
const SLOT_TIMEOUT_MS = 1_500;
const SLOW_MACHINE_MS = 20_000;
const LIMITS = [
  { name: 'failures', policy: slidingLog({ limit: 5, window: '1h' }) },
  { name: 'fleet', policy: concurrency({ limit: 10, reserved: { critical: 0.2 } }) },
  { name: 'mortal', policy: concurrency({ limit: 3, slotTimeout: SLOT_TIMEOUT_MS }) },
];

let server: RedisServer;
let client: Redis;
let fleet: HttpFleet;

beforeAll(async () => {
  build();
  server = await RedisServer.start();
  client = new Redis(server.port, '127.0.0.1');
  fleet = await HttpFleet.start(MEMBERS, server.port);
}, 180_000);

afterAll(async () => {
  await fleet.stop();
  client.disconnect();
  await server.stop();
});

/** What another process sees remain of a key. */
async function remaining(name: string, key: string): Promise<number> {
  const store = redisStore(client, { deadlineMs: SLOW_MACHINE_MS });
  const limiter = createLimiter({ store, limits: LIMITS });
  const { verdicts } = await limiter.peek({ [name]: key }, { priority: 'critical' });
  await limiter.close();
  return verdicts[0]?.remaining ?? NaN;
}

/** Sends so many requests at once, spread evenly over the fleet. */
async function crowd(
  count: number,
  headersOf: (index: number) => Record<string, string>,
): Promise<number[]> {
  const replies = Array.from({ length: count }, (_, index) =>
    ask(at(index).url, { headers: headersOf(index) }),
  );
  return (await Promise.all(replies)).map(({ status }) => status);
}

function at(index: number): Member {
  return fleet.members[index % MEMBERS] as Member;
}

describe('a budget of 5 failures for four processes', () => {
  it('serves all of 20 successes at once, some after a wait', async () => {
    const headers = { 'x-failures': 'fine', 'x-after-ms': '40' };
    expect(tally(await crowd(20, () => headers))).toEqual({ 200: 20 });
    await expect.poll(() => remaining('failures', 'fine')).toBe(5);
  });

  it('lets no more than 5 of 20 failures at once through', async () => {
    const headers = { 'x-failures': 'wrong', 'x-after-ms': '40', 'x-status': '401' };
    expect(tally(await crowd(20, () => headers))).toEqual({ 401: 5, 429: 15 });
    expect(await remaining('failures', 'wrong')).toBe(0);
    // Nothing is reserved any more, so that nobody has to wait for the answer.
    const began = performance.now();
    expect(tally(await crowd(4, () => headers))).toEqual({ 429: 4 });
    expect(performance.now() - began).toBeLessThan(SLOW_MACHINE_MS / 2);
  });

  it('counts exactly the failures of a mixed crowd, and serves the rest', async () => {
    const fails = (index: number): boolean => index % 6 === 0;
    const statuses = await crowd(24, (index) => ({
      'x-failures': 'mixed',
      'x-after-ms': `${10 + index}`,
      'x-status': fails(index) ? '500' : '200',
    }));
    expect(tally(statuses)).toEqual({ 200: 20, 500: 4 });
    await expect.poll(() => remaining('failures', 'mixed')).toBe(1);
  });

  it('is waited for in one process while another has it all', async () => {
    const headers = { 'x-failures': 'held' };
    const held = Array.from({ length: 5 }, () =>
      ask(at(0).url, { headers: { ...headers, 'x-after-ms': '150' } }),
    );
    await expect.poll(() => remaining('failures', 'held'), { interval: 5 }).toBe(0);
    const waited = await ask(at(1).url, { headers });
    expect(waited.status).toBe(200);
    for (const reply of held) expect((await reply).status).toBe(200);
  });
});

describe('slots', () => {
  /** Takes a slot and holds it until it is let go, or the test is over. */
  async function hold(member: Member, headers: Record<string, string>) {
    const client = new AbortController();
    onTestFinished(() => client.abort());
    const { status, body } = await fetch(member.url, {
      headers: { 'x-hold': 'yes', ...headers },
      signal: client.signal,
    });
    if (status !== 200) await body?.cancel();
    return { status, letGo: () => client.abort() };
  }

  it('of which a share is reserved are refused to others above the rest, in every process', async () => {
    const normal = { 'x-fleet': 'all' };
    const critical = { ...normal, 'x-priority': 'critical' };
    const held: Awaited<ReturnType<typeof hold>>[] = [];
    for (let index = 0; index < 8; index++) held.push(await hold(at(index), normal));
    expect(held.map(({ status }) => status)).toEqual(Array(8).fill(200));
    for (const { url } of fleet.members) {
      const refusal = await ask(url, { headers: normal });
      expect(refusal.status).toBe(503);
      expect(refusal.headers.get('retry-after')).toBe('1');
      expect((await ask(url, { headers: { ...normal, 'x-priority': 'sheddable' } })).status).toBe(
        503,
      );
      // One at a time, since each takes a slot while it lasts.
      expect((await ask(url, { headers: critical })).status).toBe(200);
    }
    const last = [await hold(at(0), critical), await hold(at(1), critical)];
    expect(last.map(({ status }) => status)).toEqual([200, 200]);
    expect((await ask(at(2).url, { headers: critical })).status).toBe(503);
    for (const { letGo } of [...held, ...last]) letGo();
    await expect.poll(() => remaining('fleet', 'all')).toBe(10);
    expect((await ask(at(3).url, { headers: normal })).status).toBe(200);
  });

  it('of a process that is killed come back after their timeout, and not before', async () => {
    const headers = { 'x-mortal': 'all' };
    const doomed = at(MEMBERS - 1);
    for (let index = 0; index < 3; index++) {
      expect((await hold(doomed, headers)).status).toBe(200);
    }
    // Renewed for as long as their requests live.
    await sleep(1.5 * SLOT_TIMEOUT_MS);
    expect((await ask(at(0).url, { headers })).status).toBe(429);
    const killedMs = performance.now();
    await doomed.kill();
    const statuses: number[] = [];
    for (;;) {
      const { status } = await ask(at(statuses.length % (MEMBERS - 1)).url, { headers });
      statuses.push(status);
      if (status === 200) break;
      await sleep(50);
    }
    const tookMs = performance.now() - killedMs;
    expect(statuses.length).toBeGreaterThan(1);
    // They were renewed a third of the timeout before at the latest, on a machine that is in time.
    expect(tookMs).toBeGreaterThan(SLOT_TIMEOUT_MS / 4);
    expect(tookMs).toBeLessThan(SLOT_TIMEOUT_MS + 3_000);
    await expect.poll(() => remaining('mortal', 'all')).toBe(3);
  });
});
