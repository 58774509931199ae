import {
  concurrency,
  type Decision,
  fixedWindow,
  leakyBucket,
  type PolicyInput,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { FRAMEWORKS } from './servers.ts';
import { Turnstile } from './turnstile.ts';

function shadow(policy: PolicyInput) {
  return { name: 'planned', policy, mode: 'shadow' } as const;
}

const one = fixedWindow({ limit: 1, window: '60s' });

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  it('never refuses, and never shows', async () => {
    const { store } = new Clock();
    const seen: Decision[] = [];
    const rejected: string[] = [];
    const { url, gate } = await serve({
      gates: [
        {
          store,
          limits: [shadow(one), { name: 'real', policy: fixedWindow({ limit: 3, window: '60s' }) }],
          onDecision: (decision) => seen.push(decision),
          onReject: (_request, { reason }) => rejected.push(reason),
        },
      ],
    });
    for (const left of ['2', '1', '0']) {
      const reply = await ask(url);
      expect(reply.status).toBe(200);
      expect(reply.headers.get('ratelimit')).toBe(`"real";r=${left};t=60`);
      expect(reply.headers.get('ratelimit-policy')).toBe('"real";q=3;w=60');
      expect(reply.headers.get('ratelimit-limit')).toBe('3');
    }
    expect(rejected).toEqual([]);
    expect(seen.map(({ allowed, verdicts }) => [allowed, verdicts[0]?.allowed])).toEqual([
      [true, true],
      [true, false],
      [true, false],
    ]);
    const refusal = await ask(url);
    expect(JSON.parse(refusal.text)).toHaveProperty('violated-policies', ['real']);
    expect(gate.rejections()).not.toHaveProperty('planned');
  });

  it('sends no headers when nothing but shadows applied', async () => {
    const { url } = await serve({ gates: [{ store: new Clock().store, limits: [shadow(one)] }] });
    expect(await inTurn(url, 3)).toEqual([200, 200, 200]);
    expect([...(await ask(url)).headers].filter(([name]) => name.includes('ratelimit'))).toEqual(
      [],
    );
  });

  it('charges what is admitted only', async () => {
    const { store } = new Clock();
    const ten = fixedWindow({ limit: 10, window: '60s' });
    const { url, gate } = await serve({
      gates: [{ store, limits: [shadow(ten), { name: 'real', policy: one }] }],
    });
    expect(await inTurn(url, 4)).toEqual([200, 429, 429, 429]);
    expect((await gate.limiter.peek({ planned: '127.0.0.1' })).verdicts[0]?.remaining).toBe(9);
  });

  it('does not hold a request', async () => {
    const policy = leakyBucket({ capacity: 10, rate: 1, per: '1h' });
    const { url } = await serve({
      gates: [{ store: new Clock().store, limits: [shadow(policy)] }],
    });
    expect(await inTurn(url, 3)).toEqual([200, 200, 200]);
  });

  it('forbids nobody', async () => {
    const limit = { ...shadow(one), denyList: ['127.0.0.1'] };
    const { url } = await serve({ gates: [{ store: new Clock().store, limits: [limit] }] });
    expect((await ask(url)).status).toBe(200);
  });

  it('frees the slots that it takes', async () => {
    const { store } = new Clock();
    const turnstile = new Turnstile();
    const { url, gate } = await serve({
      gates: [{ store, limits: [shadow(concurrency({ limit: 2 }))] }],
      routes: [{ path: '/', handler: turnstile.handler }],
    });
    const left = async (): Promise<unknown> =>
      (await gate.limiter.peek({ planned: '127.0.0.1' })).verdicts[0]?.remaining;
    const replies = [ask(url), ask(url), ask(url)];
    await expect.poll(() => turnstile.holding).toBe(3);
    expect(await left()).toBe(0);
    turnstile.release(3);
    await Promise.all(replies);
    await expect.poll(left).toBe(2);
  });

  test.each(['failures', 'successes'] as const)(
    'gives back what does not count under %s',
    async (countOnly) => {
      const { store } = new Clock();
      const ten = fixedWindow({ limit: 10, window: '60s' });
      const { url, gate } = await serve({
        gates: [{ store, limits: [{ ...shadow(ten), countOnly }] }],
      });
      expect(await inTurn(url, 2)).toEqual([200, 200]);
      await expect
        .poll(
          async () => (await gate.limiter.peek({ planned: '127.0.0.1' })).verdicts[0]?.remaining,
        )
        .toBe(countOnly === 'failures' ? 10 : 8);
    },
  );
});
