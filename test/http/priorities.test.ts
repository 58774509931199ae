import { concurrency, everyone } from '@tollgate/core';
import { describe, expect, it } from 'vitest';
import { header } from './app.ts';
import { ask } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { Turnstile } from './turnstile.ts';

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('keeps slots for those that matter most', async () => {
    const turnstile = new Turnstile();
    const policy = concurrency({ limit: 4, reserved: { critical: 0.25, normal: 0.25 } });
    const { url } = await serve({
      gates: [
        {
          store: new Clock().store,
          limits: [{ name: 'slots', by: everyone(), policy }],
          priority: async (request) => header('x-priority')(request),
        },
      ],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    const as = (priority: string): RequestInit => ({ headers: { 'x-priority': priority } });
    const held = [ask(url, as('sheddable')), ask(url, as('sheddable'))];
    await expect.poll(() => turnstile.holding).toBe(2);
    expect((await ask(url, as('sheddable'))).status).toBe(503);
    held.push(ask(url));
    await expect.poll(() => turnstile.holding).toBe(3);
    expect((await ask(url)).status).toBe(503);
    held.push(ask(url, as('critical')));
    await expect.poll(() => turnstile.holding).toBe(4);
    expect((await ask(url, as('critical'))).status).toBe(503);
    turnstile.release(4);
    for (const reply of held) expect((await reply).status).toBe(200);
  });

  it('takes priorities by the names that the gate gives them, the lowest by default', async () => {
    const turnstile = new Turnstile();
    const policy = concurrency({ limit: 2, reserved: { gold: 0.5 } });
    const { url, errors } = await serve({
      gates: [
        {
          store: new Clock().store,
          priorities: ['gold', 'plain'],
          limits: [{ name: 'slots', by: everyone(), policy }],
          priority: (request) => header('x-priority')(request),
        },
      ],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    const held = [ask(url)];
    await expect.poll(() => turnstile.holding).toBe(1);
    expect((await ask(url)).status).toBe(503);
    held.push(ask(url, { headers: { 'x-priority': 'gold' } }));
    await expect.poll(() => turnstile.holding).toBe(2);
    expect((await ask(url, { headers: { 'x-priority': 'normal' } })).status).toBe(500);
    expect(errors).toMatchObject([{ code: 'TOLLGATE_ARGUMENT' }]);
    turnstile.release(2);
    for (const reply of held) expect((await reply).status).toBe(200);
  });
});
