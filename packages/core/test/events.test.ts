import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import type { Decision } from '../src/decision.ts';
import { TollgateArgumentError } from '../src/errors.ts';
import { onEvent, type TollgateEvents } from '../src/events.ts';
import { createLimiter, type LimiterOptions } from '../src/limiter.ts';
import { concurrency, fixedWindow, leakyBucket } from '../src/policy.ts';
import { memoryStore } from '../src/stores/memory.ts';
import { OwnProcess } from './own-process.ts';
import { PromisedStore } from './promised-store.ts';

const NAMES: (keyof TollgateEvents)[] = [
  'tollgate:decision',
  'tollgate:store-error',
  'tollgate:store-health',
  'tollgate:store-call',
  'tollgate:reset',
  'tollgate:ban',
  'tollgate:unban',
  'tollgate:update',
  'tollgate:lease',
];
const quiet = { warn: () => undefined, error: () => undefined };
const limits: LimiterOptions['limits'] = [
  { name: 'ip', policy: fixedWindow({ limit: 2, window: '1d' }) },
];

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** What is told on a channel until the test is over. */
function told<Name extends keyof TollgateEvents>(name: Name): TollgateEvents[Name][] {
  const events: TollgateEvents[Name][] = [];
  ends.push(onEvent(name, (event) => events.push(event)));
  return events;
}

describe('a decision', () => {
  it('is told once, for every consume', () => {
    const events = told('tollgate:decision');
    const limiter = createLimiter({ limits });
    const decisions = [1, 2, 3].map(() => limiter.consume({ ip: 'a' }));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect(events.map(({ decision }) => decision)).toEqual(decisions);
    for (const event of events) expect(event.limiter).toBe(limiter);
  });

  it('is none where nothing is decided: of a peek, a charge, a refund and a settlement', async () => {
    const events = told('tollgate:decision');
    const limiter = createLimiter({ limits });
    limiter.peek({ ip: 'a' });
    await limiter.charge({ ip: 'a' }).settle(0);
    limiter.refund({ ip: 'a' });
    expect(events).toEqual([]);
  });

  it('of a wait is its admission, with its delay over', async () => {
    const events = told('tollgate:decision');
    const policy = leakyBucket({ capacity: 5, rate: 1, per: 20 });
    const limiter = createLimiter({ limits: [{ name: 'queue', policy }] });
    const waits = [1, 2, 3].map(() => limiter.wait({ queue: 'a' }));
    const decisions = await Promise.all(waits);
    expect(events.map(({ decision }) => decision)).toEqual(decisions);
    expect(decisions.map(({ allowed, delayMs }) => [allowed, delayMs])).toEqual([
      [true, 0],
      [true, 0],
      [true, 0],
    ]);
  });

  it('of a wait is its refusal, where it was decided that it cannot be in time', async () => {
    const events = told('tollgate:decision');
    const limiter = createLimiter({ limits });
    await limiter.wait({ ip: 'a' }, { cost: 2 });
    await expect(limiter.wait({ ip: 'a' }, { maxWaitMs: 10 })).rejects.toMatchObject({
      decision: { reason: 'limited' },
    });
    expect(events.map(({ decision: { reason } }) => reason)).toEqual(['ok', 'limited']);
  });

  it('of a wait that ends unasked is none', async () => {
    const events = told('tollgate:decision');
    const policy = concurrency({ limit: 1 });
    const limiter = createLimiter({ limits: [{ name: 'slots', policy }] });
    const held = await limiter.wait({ slots: 'a' });
    const first = limiter.wait({ slots: 'a' });
    const abort = new AbortController();
    const second = limiter.wait({ slots: 'a' }, { signal: abort.signal });
    abort.abort();
    await expect(second).rejects.toThrow();
    expect(events).toHaveLength(1);
    await held.release();
    await (await first).release();
    expect(events).toHaveLength(2);
  });

  it('is told by limiters on every store, and once it is made', async () => {
    const events = told('tollgate:decision');
    const limiter = createLimiter({ store: new PromisedStore(), limits });
    const asked = limiter.consume({ ip: 'a' });
    expect(events).toEqual([]);
    expect(events.map(({ decision }) => decision)).toEqual([]);
    const decision = await asked;
    expect(events).toEqual([{ decision, limiter }]);
    await limiter.close();
  });
});

describe('while the store is out', () => {
  async function decided(
    whenStoreFails: 'local' | 'allow' | 'deny',
  ): Promise<[reason: string, source: string, degraded: boolean][]> {
    const events = told('tollgate:decision');
    const store = new PromisedStore();
    const [limit] = limits;
    const limiter = createLimiter({
      store,
      limits: [{ name: 'ip', ...limit, whenStoreFails }],
      logger: quiet,
    });
    await limiter.consume({ ip: 'a' });
    await limiter.consume({});
    store.fault = new Error('gone');
    await limiter.consume({ ip: 'a' });
    await limiter.wait({ ip: 'a' }, { maxWaitMs: 0 }).catch(() => undefined);
    store.fault = undefined;
    await limiter.close();
    return events.map(({ decision: { reason, source, degraded } }) => [reason, source, degraded]);
  }

  it.each([
    ['local', 'ok', 'fallback'],
    ['allow', 'ok', 'none'],
    ['deny', 'store-unavailable', 'none'],
  ] as const)('a decision by %s is told as degraded', async (whenStoreFails, reason, source) => {
    expect(await decided(whenStoreFails)).toEqual([
      ['ok', 'store', false],
      // Nothing applied, which is another reason to have no source.
      ['ok', 'none', false],
      [reason, source, true],
      [reason, source, true],
    ]);
  });

  it('each of its errors is told once, whoever else is told', async () => {
    const events = told('tollgate:store-error');
    const store = new PromisedStore();
    const errors: unknown[] = [];
    const limiter = createLimiter({ store, limits, onStoreError: (error) => errors.push(error) });
    const decision = await limiter.consume({ ip: 'a' });
    store.fault = new Error('gone');
    await limiter.consume({ ip: 'a' });
    await decision.settle(0);
    expect(errors).toHaveLength(2);
    expect(events).toEqual(errors.map((error) => ({ error, limiter })));
    store.fault = undefined;
    await limiter.close();
  });
});

describe('what operators do', () => {
  const keys = { ip: '192.0.2.7' };

  it('is told once it is done', () => {
    const [resets, bans, unbans] = [
      told('tollgate:reset'),
      told('tollgate:ban'),
      told('tollgate:unban'),
    ];
    const updates = told('tollgate:update');
    const limiter = createLimiter({ limits });
    limiter.reset(keys);
    limiter.ban(keys, 5_000);
    limiter.unban(keys);
    limiter.update('ip', fixedWindow({ limit: 9, window: '1d' }));
    const event = { limiter, limits: ['ip'], keys, error: undefined };
    expect(resets).toEqual([event]);
    expect(bans).toEqual([{ ...event, forMs: 5_000 }]);
    expect(unbans).toEqual([event]);
    expect(updates).toEqual([
      {
        limiter,
        limit: 'ip',
        policy: fixedWindow({ limit: 9, window: '1d' }),
        before: fixedWindow({ limit: 2, window: '1d' }),
      },
    ]);
  });

  it('is not told where it was refused', () => {
    const bans = told('tollgate:ban');
    const updates = told('tollgate:update');
    const limiter = createLimiter({ limits });
    expect(() => limiter.ban(keys, -1)).toThrow(TollgateArgumentError);
    expect(() => limiter.update('ip', { algorithm: 'none' } as never)).toThrow();
    expect(() => limiter.update('other', fixedWindow({ limit: 9, window: '1d' }))).toThrow();
    expect([...bans, ...updates]).toEqual([]);
  });

  it('is told with why it failed, and the caller is told too', async () => {
    const resets = told('tollgate:reset');
    const store = new PromisedStore();
    const limiter = createLimiter({ store, limits });
    await limiter.reset(keys);
    const fault = new Error('gone');
    store.fault = fault;
    await expect(limiter.reset(keys)).rejects.toBe(fault);
    expect(resets.map(({ error }) => error)).toEqual([undefined, fault]);
    store.fault = undefined;
    await limiter.close();
  });

  it.each([
    ['hash', { ip: expect.stringMatching(/^[\w-]{22}$/) }],
    [false, undefined],
  ] as const)('shows keys as logKeys says: %s', (logKeys, shown) => {
    const resets = told('tollgate:reset');
    createLimiter({ limits, logKeys }).reset(keys);
    expect(resets).toMatchObject([{ limits: ['ip'], keys: shown }]);
  });

  it('takes no other logKeys', () => {
    const logKeys = 'plain' as never;
    expect(() => createLimiter({ limits, logKeys })).toThrow(/^logKeys: expected "clear"/);
  });
});

describe('where nobody listens', () => {
  it('nothing is published, and nothing read that is worked out when it is read', async () => {
    let published = 0;
    for (const name of NAMES) {
      const open = channel(name) as { publish?: unknown };
      open.publish = (): void => void published++;
      ends.push(() => delete open.publish);
    }
    const store = memoryStore();
    let read = 0;
    const decide = store.decide.bind(store);
    store.decide = (...call) => {
      const answer = decide(...call);
      const { verdicts } = answer;
      return Object.defineProperty(Object.create(answer) as typeof answer, 'verdicts', {
        get: () => (read++, verdicts),
      });
    };
    const limiter = createLimiter({ store, limits });
    const use = (): void => {
      limiter.consume({ ip: 'a' });
      limiter.update('ip', fixedWindow({ limit: 3, window: '1d' }));
      limiter.reset({ ip: 'a' });
      limiter.ban({ ip: 'b' }, 1_000);
      limiter.unban({ ip: 'b' });
    };
    use();
    const out = new PromisedStore();
    out.fault = new Error('gone');
    await createLimiter({ store: out, limits, logger: quiet }).consume({ ip: 'a' });
    expect([published, read]).toEqual([0, 0]);
    // And the same is seen as soon as somebody does: the test looks in the right place.
    for (const name of NAMES) delete (channel(name) as { publish?: unknown }).publish;
    const decisions = told('tollgate:decision');
    const resets = told('tollgate:reset');
    use();
    expect([decisions.length, resets.length]).toEqual([1, 1]);
    expect([decisions[0]?.decision.verdicts.length, read]).toEqual([1, 1]);
  });
});

describe('a listener', () => {
  it('is told no more once it has ended', () => {
    const events: Decision[] = [];
    const end = onEvent('tollgate:decision', ({ decision }) => void events.push(decision));
    const limiter = createLimiter({ limits });
    limiter.consume({ ip: 'a' });
    end();
    end();
    limiter.consume({ ip: 'a' });
    expect(events).toHaveLength(1);
    expect(channel('tollgate:decision').hasSubscribers).toBe(false);
  });

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('mine');
      },
    ],
    ['rejects', () => Promise.reject(new Error('mine'))],
  ])('that %s is warned of once, and nobody else is hurt', async (_, fail) => {
    const warned: Error[] = [];
    const onWarning = (warning: Error): void => void warned.push(warning);
    process.on('warning', onWarning);
    ends.push(() => process.off('warning', onWarning));
    ends.push(onEvent('tollgate:decision', fail as () => void));
    const events = told('tollgate:decision');
    const limiter = createLimiter({ limits });
    expect(limiter.consume({ ip: 'a' }).allowed).toBe(true);
    expect(limiter.consume({ ip: 'a' }).allowed).toBe(true);
    expect(events).toHaveLength(2);
    if (warned.length === 0) await once(process, 'warning');
    await new Promise(setImmediate);
    expect(warned).toHaveLength(1);
    expect(warned[0]).toMatchObject({ code: 'TOLLGATE_LISTENER' });
    expect(warned[0]?.message).toMatch(/^A listener of tollgate:decision failed: Error: mine\n/);
  });

  it('must be a function, of a channel that is there', () => {
    expect(() => onEvent('tollgate:decisions' as never, () => undefined)).toThrow(
      /^There is no channel "tollgate:decisions" \(string\); there are tollgate:decision, /,
    );
    expect(() => onEvent('tollgate:decision', undefined as never)).toThrow(TollgateArgumentError);
  });

  it("of Node's own channel that throws is an uncaught exception, after the decision", async () => {
    const own = await OwnProcess.prepare();
    const { code, result } = await own.run(`
      import { subscribe } from 'node:diagnostics_channel';
      subscribe('tollgate:decision', () => { throw new Error('mine'); });
      const policy = core.fixedWindow({ limit: 2, window: '1d' });
      const limiter = core.createLimiter({ limits: [{ name: 'ip', policy }] });
      let uncaught = 0;
      process.on('uncaughtException', () => uncaught++);
      const { remaining } = limiter.consume({ ip: 'a' });
      const before = uncaught;
      setImmediate(() => console.log(JSON.stringify({ remaining, before, uncaught })));
    `);
    await own.clear();
    expect(code).toBe(0);
    expect(result).toEqual({ remaining: 1, before: 0, uncaught: 1 });
  });
});
