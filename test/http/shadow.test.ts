import type { IncomingMessage } from 'node:http';
import {
  concurrency,
  type Decision,
  fixedWindow,
  leakyBucket,
  type PolicyInput,
} from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { header } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock } from './clock.ts';
import { Log } from './log.ts';
import { FAILURES } from './misbehaviour.ts';
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
    expect(gate.rejections()).toMatchObject({
      planned: { count: 3, shadow: true, keys: [{ key: '127.0.0.1', count: 3 }] },
      real: { count: 1, shadow: false },
    });
  });

  it('is logged apart from what is refused, which it cannot keep out of the log', async () => {
    const log = new Log();
    const none = fixedWindow({ limit: 0, window: '60s' });
    const by = header('x-user');
    const limits = [
      { ...shadow(none), by },
      { name: 'real', policy: one, by },
    ];
    const { url } = await serve({ gates: [{ store: new Clock().store, limits, logger: log }] });
    for (let user = 0; user < 25; user++) {
      expect(await inTurn(url, 1, { headers: { 'x-user': `${user}` } })).toEqual([200]);
    }
    expect(await inTurn(url, 1, { headers: { 'x-user': '24' } })).toEqual([429]);
    expect(log.lines).toHaveLength(21);
    expect(log.lines[0]).toMatchObject({
      level: 'warn',
      details: { limit: 'planned', key: '0', reason: 'limited', shadow: true },
      message: 'request would be refused',
    });
    expect(log.lines.at(-1)).toMatchObject({
      details: { limit: 'real', key: '24', reason: 'limited' },
      message: 'request refused',
    });
    expect(log.lines.at(-1)?.details).not.toHaveProperty('shadow');
  });

  it('is counted for what does not come through the framework, too', async () => {
    const { gate } = await serve({ gates: [{ store: new Clock().store, limits: [shadow(one)] }] });
    const raw = { headers: {}, socket: { remoteAddress: '203.0.113.7' } } as IncomingMessage;
    for (let times = 0; times < 3; times++) expect((await gate.consume(raw)).allowed).toBe(true);
    expect(gate.rejections()).toMatchObject({ planned: { count: 2, shadow: true } });
  });

  test.each(FAILURES)(
    'refuses nobody while its key function $how, and says so',
    async ({ act }) => {
      const log = new Log();
      const real = { name: 'real', policy: fixedWindow({ limit: 9, window: '60s' }) };
      const limits = [{ ...shadow(one), by: act as () => string }, real];
      const { url, errors } = await serve({
        gates: [{ store: new Clock().store, limits, logger: log, functionTimeoutMs: 50 }],
      });
      const replies = [await ask(url), await ask(url)];
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
      expect(replies[1]?.headers.get('ratelimit')).toBe('"real";r=7;t=60');
      expect([errors, log.faulty]).toEqual([[], ['planned']]);
    },
  );

  test.each<[string, object]>([
    ['key', { by: () => 7 }],
    ['policy', { policy: () => ({ algorithm: 'none' }) }],
    ['cost', { cost: () => -1 }],
    ['skip', { skip: () => Promise.reject(new Error('broken')) }],
  ])('refuses nobody for a %s that cannot be', async (_, wrong) => {
    const log = new Log();
    const limits = [{ ...shadow(one), ...wrong }];
    const { url } = await serve({ gates: [{ store: new Clock().store, limits, logger: log }] });
    expect(await inTurn(url, 2)).toEqual([200, 200]);
    expect(log.faulty).toEqual(['planned']);
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
