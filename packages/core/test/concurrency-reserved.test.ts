import { describe, expect, it, test } from 'vitest';
import type { Decision } from '../src/decision.ts';
import { createLimiter, type Limiter } from '../src/limiter.ts';
import { concurrency, type ConcurrencyOptions, fixedWindow } from '../src/policy.ts';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';

function limiterOf(
  options: ConcurrencyOptions,
  priorities?: readonly string[],
): Limiter<MemoryStore> {
  return createLimiter({
    store: memoryStore(),
    limits: [{ name: 'jobs', policy: concurrency(options) }],
    ...(priorities !== undefined && { priorities }),
  });
}

const jobs = 'a';
const ask = (limiter: Limiter<MemoryStore>, priority?: string): Decision =>
  limiter.consume({ jobs }, priority === undefined ? {} : { priority });

/** How many a priority is given of an untouched key. */
function room(limiter: Limiter<MemoryStore>, priority?: string): number {
  const key = `untouched by ${priority}`;
  const options = priority === undefined ? {} : { priority };
  const { remaining } = limiter.peek({ jobs: key }, options);
  let given = 0;
  while (limiter.consume({ jobs: key }, options).allowed) given++;
  expect(given).toBe(remaining);
  return given;
}

describe('a reserved share', () => {
  it('is kept for its priority and those above', () => {
    const limiter = limiterOf({ limit: 10, reserved: { critical: 0.2 } });
    expect(room(limiter, 'critical')).toBe(10);
    expect(room(limiter, 'normal')).toBe(8);
    expect(room(limiter, 'sheddable')).toBe(8);
    expect(room(limiter)).toBe(8);
    limiter.close();
  });

  it('adds up from priority to priority', () => {
    const limiter = limiterOf({ limit: 10, reserved: { normal: 0.3, critical: 0.2 } });
    expect(room(limiter, 'critical')).toBe(10);
    expect(room(limiter, 'normal')).toBe(8);
    expect(room(limiter, 'sheddable')).toBe(5);
    limiter.close();
  });

  it('counts all who are in flight, whoever they are', async () => {
    const limiter = limiterOf({ limit: 4, reserved: { critical: 0.5 } });
    const held = [ask(limiter, 'critical'), ask(limiter, 'critical')];
    expect(ask(limiter).allowed).toBe(false);
    expect(ask(limiter, 'critical').remaining).toBe(1);
    await held[0]?.release();
    expect(ask(limiter).allowed).toBe(false);
    await held[1]?.release();
    expect(ask(limiter).allowed).toBe(true);
    limiter.close();
  });

  test.each([
    [10, 0.2, 8],
    [10, 0.25, 7],
    [3, 0.2, 2],
    [1, 0.2, 0],
    [100, 0.07, 93],
    [100, 0.29, 71],
    [1_000, 0.001, 999],
    [7, 0.142857, 6],
    [10, 0, 10],
    [0, 0.5, 0],
  ])('of %d times %d, rounded up, leaves %d', (limit, critical, left) => {
    const limiter = limiterOf({ limit, reserved: { critical } });
    expect(room(limiter, 'normal')).toBe(left);
    limiter.close();
  });
});

describe('a refusal', () => {
  it('is overloaded where shares are reserved, and limited where not', () => {
    const reserved = limiterOf({ limit: 2, reserved: { critical: 0.5 } });
    ask(reserved);
    expect(ask(reserved)).toMatchObject({ allowed: false, reason: 'overloaded', remaining: 0 });
    ask(reserved, 'critical');
    expect(ask(reserved, 'critical')).toMatchObject({ allowed: false, reason: 'overloaded' });
    const plain = limiterOf({ limit: 1 });
    ask(plain);
    expect(ask(plain)).toMatchObject({ allowed: false, reason: 'limited' });
    reserved.close();
    plain.close();
  });

  it('says when the slots that are in the way time out', () => {
    const limiter = limiterOf({ limit: 2, slotTimeout: '60s', reserved: { critical: 0.5 } });
    ask(limiter, 'critical');
    const { retryAfterMs } = ask(limiter, 'normal');
    expect(retryAfterMs).toBeGreaterThan(59_000);
    expect(retryAfterMs).toBeLessThanOrEqual(60_000);
    limiter.close();
  });

  it('of one who has no room at all is for ever', () => {
    const limiter = limiterOf({ limit: 1, reserved: { critical: 0.5 } });
    expect(ask(limiter, 'normal').retryAfterMs).toBe(Infinity);
    expect(ask(limiter, 'critical').allowed).toBe(true);
    limiter.close();
  });
});

describe('priorities', () => {
  const reserved = { gold: 0.5 };

  it('are those of the limiter, the lowest being the default', () => {
    const limiter = limiterOf({ limit: 4, reserved }, ['gold', 'silver', 'bronze']);
    expect(room(limiter, 'gold')).toBe(4);
    expect(room(limiter)).toBe(2);
    expect(() => ask(limiter, 'normal')).toThrow(/no priority "normal".*gold, silver, bronze/);
    limiter.close();
  });

  it('have "normal" for a default where it is one', () => {
    const limiter = limiterOf({ limit: 4, reserved: { normal: 0.5 } }, ['gold', 'normal', 'free']);
    expect(room(limiter)).toBe(4);
    expect(room(limiter, 'free')).toBe(2);
    limiter.close();
  });

  it('may be named like members of objects', () => {
    const limiter = limiterOf({ limit: 4, reserved: { constructor: 0.5 } }, [
      'constructor',
      'then',
    ]);
    expect(room(limiter, 'constructor')).toBe(4);
    expect(room(limiter, 'then')).toBe(2);
    limiter.close();
  });

  it('make no difference to other limits', () => {
    const limiter = createLimiter({
      limits: [{ name: 'ip', policy: fixedWindow({ limit: 3, window: '1h' }) }],
    });
    const left = ['critical', 'normal', 'sheddable'].map(
      (priority) => limiter.consume({ ip: 'a' }, { priority }).remaining,
    );
    expect(left).toEqual([2, 1, 0]);
  });

  it('hold for a policy that the call brings, and after an update', () => {
    const limiter = limiterOf({ limit: 4 });
    const policies = { jobs: concurrency({ limit: 4, reserved: { critical: 0.5 } }) };
    expect(limiter.peek({ jobs }, { policies }).remaining).toBe(2);
    expect(limiter.peek({ jobs }, { policies, priority: 'critical' }).remaining).toBe(4);
    limiter.update('jobs', policies.jobs);
    expect(limiter.peek({ jobs }).remaining).toBe(2);
    const vip = concurrency({ limit: 4, reserved: { vip: 0.5 } });
    expect(() => limiter.update('jobs', vip)).toThrow(/^policy\.reserved\.vip: there is no such/);
    expect(() => limiter.peek({ jobs }, { policies: { jobs: vip } })).toThrow(
      /^policies\.jobs\.reserved\.vip: /,
    );
    limiter.close();
  });
});
