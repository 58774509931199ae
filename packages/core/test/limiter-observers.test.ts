import { describe, expect, it } from 'vitest';
import type { Decision } from '../src/decision.ts';
import { TollgateStoreError } from '../src/errors.ts';
import { createLimiter, type Limiter, type LimiterOptions } from '../src/limiter.ts';
import type { Logger } from '../src/logger.ts';
import { concurrency, fixedWindow } from '../src/policy.ts';
import { memoryStore } from '../src/stores/memory.ts';
import { PromisedStore } from './promised-store.ts';

const limits = [
  { name: 'ip', policy: fixedWindow({ limit: 2, window: '1d' }) },
  { name: 'jobs', policy: concurrency({ limit: 2 }) },
];
const keys = { ip: 'a', jobs: 'a' };

interface Log {
  readonly lines: [level: string, error: unknown, message: string][];
  readonly logger: Logger;
}

function log(): Log {
  const lines: Log['lines'] = [];
  const at =
    (level: string) =>
    (details: object, message: string): void =>
      void lines.push([level, (details as { err: unknown }).err, message]);
  return { lines, logger: { warn: at('warn'), error: at('error') } };
}

describe('onDecision', () => {
  it('is told of every consume and every admission of a wait', async () => {
    const told: Decision[] = [];
    const onDecision = (decision: Decision): void => void told.push(decision);
    const limiter = createLimiter({ limits, onDecision });
    const made = [limiter.consume(keys), limiter.consume(keys), limiter.consume(keys)];
    expect(made.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect(told).toHaveLength(3);
    made.forEach((decision, index) => expect(told[index]).toBe(decision));
    limiter.peek(keys);
    limiter.charge({ ip: 'b' });
    limiter.refund({ ip: 'a' });
    expect(told).toHaveLength(3);
    const waited = await limiter.wait({ ip: 'c' });
    expect(told[3]).toBe(waited);
    limiter.close();
  });

  it('may throw: the request is served and the error is logged', () => {
    const { lines, logger } = log();
    const error = new Error('mine');
    const onDecision = (): void => {
      throw error;
    };
    const limiter = createLimiter({ limits, onDecision, logger });
    expect(limiter.consume({ ip: 'a' }).allowed).toBe(true);
    expect(lines).toEqual([['error', error, 'onDecision failed']]);
    expect(limiter.peek({ ip: 'a' }).remaining).toBe(1);
  });

  it('is told where answers are promises', async () => {
    const told: Decision[] = [];
    const store = new PromisedStore();
    const limiter = createLimiter({ store, limits, onDecision: (decision) => told.push(decision) });
    expect(await limiter.consume(keys)).toBe(told[0]);
    await limiter.close();
  });
});

describe('a store that fails', () => {
  const fault = new Error('gone');

  async function failed(
    options: Partial<LimiterOptions>,
    use: (limiter: Limiter, decision: Decision) => unknown,
  ): Promise<PromisedStore> {
    const store = new PromisedStore();
    const limiter = createLimiter({ ...options, store, limits });
    const decision = await limiter.consume(keys);
    store.fault = fault;
    await use(limiter, decision);
    store.fault = undefined;
    await limiter.close();
    return store;
  }

  it('leaves decisions to the failure policy, whatever it rejects with', async () => {
    const errors: unknown[] = [];
    const onStoreError = (error: unknown): void => void errors.push(error);
    await failed({ onStoreError }, async (limiter) => {
      for (const call of ['consume', 'peek', 'wait'] as const) {
        expect(await limiter[call](keys)).toMatchObject({ allowed: true, source: 'fallback' });
      }
      expect(await limiter.charge({ ip: 'a' })).toMatchObject({ source: 'fallback' });
    });
    expect(errors).toHaveLength(4);
    for (const error of errors) {
      expect(error).toBeInstanceOf(TollgateStoreError);
      expect(error).toMatchObject({ cause: fault, retryAfterMs: 0 });
    }
  });

  it('rejects what cannot be done without it, with its error', async () => {
    await failed({}, async (limiter) => {
      for (const call of ['refund', 'reset'] as const) {
        await expect(limiter[call]({ ip: 'a' })).rejects.toBe(fault);
      }
    });
  });

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('mine');
      },
    ],
    ['rejects', () => Promise.reject(new Error('mine'))],
  ])('is decided without even where onStoreError %s', async (_, onStoreError) => {
    const { lines, logger } = log();
    await failed({ logger, onStoreError }, async (limiter, decision) => {
      expect((await limiter.consume(keys)).allowed).toBe(true);
      await decision.settle(0);
    });
    expect(lines.map(([, , message]) => message)).toEqual([
      'onStoreError failed',
      'onStoreError failed',
    ]);
  });

  it('does not reject what settles or releases, and tells onStoreError', async () => {
    const errors: unknown[] = [];
    const onStoreError = (error: unknown): void => void errors.push(error);
    await failed({ onStoreError }, async (_, decision) => {
      await expect(decision.settle(0)).resolves.toBeUndefined();
      expect(errors).toEqual([fault]);
      await expect(decision.release()).resolves.toBeUndefined();
      expect(errors).toEqual([fault, fault]);
    });
  });

  it('is logged where nobody listens', async () => {
    const { lines, logger } = log();
    await failed({ logger }, (_, decision) => decision.settle(0));
    expect(lines).toEqual([['error', fault, 'the store failed']]);
  });

  it('at once, too', () => {
    const store = memoryStore();
    const errors: unknown[] = [];
    const limiter = createLimiter({ store, limits, onStoreError: (error) => errors.push(error) });
    const decision = limiter.consume(keys);
    store.correct = (): never => {
      throw fault;
    };
    expect(decision.settle(0)).toBeUndefined();
    expect(decision.release()).toBeUndefined();
    expect(errors).toEqual([fault, fault]);
  });
});
