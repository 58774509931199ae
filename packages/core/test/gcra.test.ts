import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ruleOf } from '../src/algorithms/index.ts';
import { gcra, tokenBucket } from '../src/policy.ts';
import type { Charge } from '../src/store.ts';
import { MemoryStore } from '../src/stores/memory.ts';

/**
 * The generic cell rate algorithm as the textbook has it: a theoretical arrival time, an emission interval and a
 * burst tolerance. Time is counted in 1/rate of a tick, in which all three are whole numbers.
 */
class Textbook {
  private readonly rate: bigint;
  private readonly emission: bigint;
  private readonly burst: bigint;
  private readonly tick: bigint;
  private arrival = 0n;

  constructor(rate: number, perUs: number, burst: number, tick: number) {
    this.rate = BigInt(rate) * BigInt(tick);
    this.emission = BigInt(perUs);
    this.burst = BigInt(burst);
    this.tick = BigInt(tick);
  }

  /** A request of `cost` cells at a time in microseconds; it is counted when it conforms. */
  ask(
    cost: number,
    us: number,
  ): {
    readonly allowed: boolean;
    readonly remaining: number;
    readonly retryAfter: number;
    readonly resetAfter: number;
  } {
    const now = (BigInt(us) / this.tick) * this.rate;
    const arrival = this.arrival > now ? this.arrival : now;
    const next = arrival + BigInt(cost) * this.emission;
    const conformsAt = next - this.burst * this.emission;
    const allowed = conformsAt <= now && cost <= this.burst && this.burst > 0n;
    if (allowed) this.arrival = next;
    const after = allowed ? next : arrival;
    const tolerated = this.burst * this.emission - (after - now);
    const never = cost > this.burst || this.burst === 0n;
    return {
      allowed,
      remaining: Number(tolerated > 0n ? tolerated / this.emission : 0n),
      retryAfter: allowed ? 0 : never ? Infinity : this.until(conformsAt, us),
      resetAfter: after === now ? 0 : this.until(after, us),
    };
  }

  /** From a time in microseconds to the first tick at or after another. */
  private until(then: bigint, us: number): number {
    return Number(((then + this.rate - 1n) / this.rate) * this.tick - BigInt(us));
  }
}

const DAY_US = 86_400_000_000;

const limits = fc.oneof(
  fc.record({
    rate: fc.integer({ min: 1, max: 20 }),
    per: fc.integer({ min: 1, max: 60 }),
    burst: fc.nat(6),
    tick: fc.constant(1),
  }),
  fc.constantFrom(
    { rate: 100, per: 60_000_000, burst: 20, tick: 1 },
    { rate: 7, per: 3_600_000_000, burst: 1, tick: 1 },
    { rate: 123_457, per: 30 * DAY_US, burst: 1_000, tick: 1 },
    { rate: 123_457, per: 30 * DAY_US, burst: 123_457, tick: 1_000 },
    { rate: 1_000_000_000, per: 30 * DAY_US, burst: 1_000_000, tick: 1 },
    { rate: 999_999_937, per: 30 * DAY_US, burst: 999_999_937, tick: 1_000_000 },
  ),
);

/** How long after the request before, or after what it was told to wait, and how many cells. */
const requests = fc.array(
  fc.record({
    after: fc.constantFrom('none', 'few', 'retry', 'almost', 'reset', 'part'),
    amount: fc.nat(1_000),
    cost: fc.constantFrom('one', 'few', 'zero', 'remaining', 'more', 'burst', 'beyond'),
  }),
  { minLength: 1, maxLength: 200, size: 'max' },
);

test('gcra() decides as the textbook does, to the microsecond', () => {
  let count = 0;
  fc.assert(
    fc.property(
      limits,
      fc.nat(2 ** 51 - 1),
      requests,
      ({ rate, per, burst, tick }, start, steps) => {
        let now = start;
        const store = new MemoryStore({ clock: () => now });
        const rule = ruleOf(gcra({ rate, per: per / 1_000, burst }));
        const textbook = new Textbook(rate, per, burst, tick);
        let [retry, reset, remaining] = [0, 0, burst];
        for (const { after, amount, cost } of steps) {
          now += {
            none: 0,
            few: amount % 50,
            retry: Number.isFinite(retry) ? retry : 0,
            almost: Number.isFinite(retry) ? Math.max(0, retry - 1) : 0,
            reset,
            part: Math.floor((reset * amount) / 1_000),
          }[after];
          const units = {
            zero: 0,
            one: 1,
            few: amount % 5,
            remaining,
            more: remaining + 1,
            burst,
            beyond: burst + 1,
          }[cost];
          const charge: Charge = {
            name: 'cells',
            key: 'key',
            rule,
            cost: units,
            shadow: false,
            receipt: undefined,
          };
          const verdict = store.decide([charge], 'consume').verdicts[0];
          const told = textbook.ask(units, now);
          expect(verdict?.allowed).toBe(told.allowed);
          expect(verdict?.remaining).toBe(told.remaining);
          expect(verdict?.retryAfterMs).toBe(told.retryAfter / 1_000);
          expect(verdict?.resetAfterMs).toBe(told.resetAfter / 1_000);
          ({ remaining, retryAfter: retry, resetAfter: reset } = told);
          count++;
        }
      },
    ),
    { numRuns: 300 },
  );
  expect(count).toBeGreaterThan(10_000);
});

test('gcra() is the token bucket of its burst', () => {
  expect(gcra({ rate: 5, per: '1s' })).toEqual(tokenBucket({ capacity: 1, rate: 5, per: '1s' }));
  expect(gcra({ rate: 5, per: '1s', burst: 0 })).toEqual(
    tokenBucket({ capacity: 0, rate: 5, per: '1s' }),
  );
  expect(gcra({ rate: 5, per: '1s', burst: 9 })).toEqual(
    tokenBucket({ capacity: 9, rate: 5, per: '1s' }),
  );
});
