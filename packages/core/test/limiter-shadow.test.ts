import { describe, expect, it } from 'vitest';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import { concurrency, fixedWindow, leakyBucket, type Policy } from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';
import { COUNTING } from './counting-policies.ts';
import { HandClock } from './hand-clock.ts';

const hour = (limit: number): Policy => fixedWindow({ limit, window: '1h' });

function shadowed(policy: Policy, enforced = hour(5)): Limiter<MemoryStore> {
  return createLimiter({
    store: memoryStore({ clock: new HandClock().read }),
    limits: [
      { name: 'trial', policy, mode: 'shadow' },
      { name: 'real', policy: enforced, mode: 'enforce' },
    ],
  });
}

const both = { trial: 'x', real: 'x' };

describe.each(COUNTING)('a %s in the shadow', (_, make) => {
  it('reports and never refuses', () => {
    const limiter = shadowed(make(2));
    const decisions = Array.from({ length: 5 }, () => limiter.consume(both));
    expect(decisions.every(({ allowed }) => allowed)).toBe(true);
    const [first, , third] = decisions;
    expect(first?.verdicts[0]).toMatchObject({ shadow: true, allowed: true, remaining: 1 });
    expect(third?.verdicts[0]).toMatchObject({ shadow: true, allowed: false, reason: 'limited' });
    expect(third?.verdicts[0]?.retryAfterMs).toBeGreaterThan(0);
    expect(third).toMatchObject({ reason: 'ok', retryAfterMs: 0, delayMs: 0 });
    expect(third?.binding).toMatchObject({ name: 'real', shadow: false });
    expect(third).toMatchObject({ limit: 5, remaining: 2 });
  });

  it('is charged when the request is admitted, and only then', () => {
    const limiter = shadowed(make(4), hour(2));
    for (let i = 0; i < 5; i++) limiter.consume(both);
    expect(limiter.peek(both).verdicts.map(({ remaining }) => remaining)).toEqual([2, 0]);
  });

  it('alone says nothing but yes', () => {
    const limiter = shadowed(make(1));
    for (const count of [1, 2, 3]) {
      const decision = limiter.consume({ trial: 'x' });
      expect(decision).toMatchObject({ allowed: true, reason: 'ok', binding: undefined });
      expect(decision).toMatchObject({ limit: Infinity, remaining: Infinity, resetAfterMs: 0 });
      expect(decision).toMatchObject({ retryAfterMs: 0, delayMs: 0 });
      expect(decision.verdicts[0]).toMatchObject({ shadow: true, allowed: count === 1 });
    }
  });

  it('takes nothing of a cost that it would refuse', () => {
    const limiter = shadowed(make(3));
    limiter.consume(both, { cost: { trial: 2, real: 1 } });
    limiter.consume(both, { cost: { trial: 2, real: 1 } });
    expect(limiter.peek(both).verdicts.map(({ remaining }) => remaining)).toEqual([1, 3]);
  });

  it('does not make anybody wait', async () => {
    const limiter = shadowed(make(1));
    for (let i = 0; i < 3; i++) expect((await limiter.wait(both)).allowed).toBe(true);
  });
});

it('a quota of 0 in the shadow refuses nobody', () => {
  const limiter = shadowed(hour(0));
  const decision = limiter.consume(both);
  expect(decision).toMatchObject({ allowed: true, retryAfterMs: 0 });
  expect(decision.verdicts[0]).toMatchObject({ allowed: false, retryAfterMs: Infinity });
});

it('a leaky bucket in the shadow delays nobody', () => {
  const limiter = shadowed(leakyBucket({ capacity: 5, rate: 1, per: '1s' }));
  for (let i = 0; i < 5; i++) expect(limiter.consume(both).delayMs).toBe(0);
  expect(limiter.peek({ trial: 'x' }).verdicts[0]?.remaining).toBe(0);
});

it('slots in the shadow are taken and released, and refuse nobody', async () => {
  const limiter = shadowed(concurrency({ limit: 1, reserved: { critical: 0.5 } }));
  const high = { priority: 'critical' };
  const first = limiter.consume(both, high);
  const second = limiter.consume(both, high);
  expect(second).toMatchObject({ allowed: true, reason: 'ok' });
  expect(second.verdicts[0]).toMatchObject({ allowed: false, reason: 'overloaded' });
  await second.release();
  expect(limiter.peek({ trial: 'x' }, high).verdicts[0]?.allowed).toBe(false);
  await first.release();
  expect(limiter.peek({ trial: 'x' }, high).verdicts[0]?.allowed).toBe(true);
  limiter.close();
});

it('settles what it took, and nothing where it took nothing', () => {
  const limiter = shadowed(hour(10));
  const first = limiter.consume(both, { cost: { trial: 8 } });
  const second = limiter.consume(both, { cost: { trial: 8 } });
  void second.settle({ trial: 10, real: 1 });
  expect(limiter.peek(both).verdicts[0]?.remaining).toBe(2);
  void first.settle({ trial: 3, real: 1 });
  expect(limiter.peek(both).verdicts[0]?.remaining).toBe(7);
});
