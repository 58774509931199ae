import { concurrency, everyone, fixedWindow } from '@tollgate/core';
import { expect, it, onTestFinished } from 'vitest';
import { ask, together } from './clients.ts';
import { Clock } from './clock.ts';
import { acceptUpgrades, Busy, comeAndGo, fickleRoutes } from './fickle-crowd.ts';
import type { Framework } from './servers.ts';
import type { Place } from './stores.ts';
import { Turnstile } from './turnstile.ts';

const SLOTS = 4;
const TOGETHER = 32;

/** Has a crowd come and go, and sees that all slots are there again. Time stands still, so that none comes back by itself. */
export function itLosesNoSlot(
  serve: Framework['serve'],
  storeBy: Place['storeBy'],
  requests: number,
): void {
  it(`loses none of ${SLOTS} slots to ${requests} requests that end in any way`, async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    onTestFinished(() => void process.off('warning', note));
    const busy = new Busy();
    const turnstile = new Turnstile();
    const slots = {
      name: 'slots',
      policy: concurrency({ limit: SLOTS }),
      // Some keys are known later, so that clients may be gone by then.
      by: (): string | Promise<string> =>
        Math.random() < 0.5
          ? 'everyone'
          : new Promise((resolve) => setImmediate(resolve, 'everyone')),
    };
    const units = {
      name: 'units',
      by: everyone(),
      policy: fixedWindow({ limit: 1e9, window: '1d' }),
    };
    const { url, port, http, gate } = await serve({
      gates: [{ store: storeBy(new Clock()), limits: [slots, units] }],
      routes: [...fickleRoutes(busy), { path: '/held', handler: turnstile.handler }],
    });
    acceptUpgrades(http, gate, busy);
    const free = async (): Promise<number> =>
      (await gate.limiter.peek({ slots: 'everyone' })).remaining;

    await comeAndGo({ port, requests, together: TOGETHER, seed: 1 });
    await expect.poll(() => busy.now, { timeout: 5_000 }).toBe(0);
    await expect.poll(free, { timeout: 5_000 }).toBe(SLOTS);
    // There was a crowd, of which some were refused, and never more at it than there are slots.
    expect(gate.rejections()['slots']?.count).toBeGreaterThan(0);
    expect(busy.most).toBeGreaterThan(SLOTS / 2);
    expect(busy.most).toBeLessThanOrEqual(SLOTS);

    const held = together(`${url}/held`, SLOTS);
    await expect.poll(() => turnstile.holding).toBe(SLOTS);
    expect((await ask(`${url}/quick`)).status).toBe(429);
    turnstile.release(SLOTS);
    for (const reply of held) expect((await reply).status).toBe(200);
    expect(warnings).toEqual([]);
  });
}
