import { onEvent, type StoreCallEvent, type StoreHealthEvent } from '@tollgate/core';
import { expect, it, onTestFinished } from 'vitest';
import { Site } from './faults.ts';
import { limiterOn, PATIENT, SOON, storeAt } from './limiters.ts';

/** What is told of calls and of health until the test is over. */
function told(): { calls: StoreCallEvent[]; healths: StoreHealthEvent[] } {
  const calls: StoreCallEvent[] = [];
  const healths: StoreHealthEvent[] = [];
  onTestFinished(onEvent('tollgate:store-call', (event) => void calls.push(event)));
  onTestFinished(onEvent('tollgate:store-health', (event) => void healths.push(event)));
  return { calls, healths };
}

it('tells of one call for all decisions asked for at once, and how long it took', async () => {
  const site = await Site.open();
  const store = storeAt(site.proxy.port, { ...PATIENT, prefix: 'shop:' });
  const { limiter } = limiterOn(store);
  await limiter.consume({ a: 'k' });
  const { calls, healths } = told();
  const began = performance.now();
  await Promise.all(['k', 'l', 'm'].map((key) => limiter.consume({ a: key })));
  const tookMs = performance.now() - began;
  // The first goes out at once, and the others together.
  expect(calls).toHaveLength(2);
  for (const call of calls) {
    expect(call).toMatchObject({ name: 'shop:', error: undefined });
    expect(call.durationMs).toBeGreaterThan(0);
    expect(call.durationMs).toBeLessThanOrEqual(tookMs);
  }
  await limiter.reset({ a: 'k' });
  expect(calls).toHaveLength(3);
  expect(healths).toEqual([]);
});

it('tells of calls that nobody answered, and of a store that goes down and comes up', async () => {
  const site = await Site.open();
  const deadlineMs = 300;
  const breaker = { failures: 2, probeMs: 50 };
  const store = storeAt(site.proxy.port, { deadlineMs, breaker });
  const { limiter } = limiterOn(store);
  await expect.poll(async () => (await limiter.consume({ a: 'k' })).source, SOON).toBe('store');
  const { calls, healths } = told();
  site.server.pause();
  for (let i = 0; i < 3; i++) await limiter.consume({ a: 'k' });
  // What is refused without a call is none.
  expect(calls.map(({ error }) => error?.message)).toEqual([
    `no answer within ${deadlineMs} ms`,
    `no answer within ${deadlineMs} ms`,
  ]);
  // A timer may be early by a millisecond.
  for (const { durationMs } of calls) expect(durationMs).toBeGreaterThan(deadlineMs - 2);
  expect(healths[0]).toMatchObject({
    name: 'tollgate:',
    before: 'up',
    health: { store: 'down', lastError: calls[1]?.error },
  });
  await expect.poll(() => healths.length, SOON).toBeGreaterThanOrEqual(3);
  site.server.resume();
  await expect.poll(() => limiter.health().store, SOON).toBe('up');
  const states = healths.map(({ before, health }) => `${before} ${health.store}`);
  expect(states.slice(0, 3)).toEqual(['up down', 'down probing', 'probing down']);
  expect(states.at(-1)).toBe('probing up');
  expect(healths.at(-1)?.health).toEqual(limiter.health());
  // Each goes on from the one before.
  for (const [index, { before }] of healths.entries()) {
    if (index > 0) expect(before).toBe(healths[index - 1]?.health.store);
  }
});
