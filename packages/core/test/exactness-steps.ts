import fc from 'fast-check';
import { ruleOf } from '../src/algorithms/index.ts';
import { ConcurrencyRule } from '../src/algorithms/concurrency.ts';
import type { Rule } from '../src/algorithm.ts';
import type { Policy } from '../src/policy.ts';
import type { Answer, Charge } from '../src/store.ts';
import type { Terms } from './exactness-terms.ts';
import { type Guess, type Numbers, termsOf, type Told } from './oracle.ts';

/** The farthest instant that the tests go to: year 2112, beyond which a clock reading plus a wait is not exact. */
export const LAST_INSTANT: number = 2 ** 52 - 1;

/** A policy twice: as the store applies it and as the oracle reads it. */
export interface Pair {
  readonly rule: Rule;
  readonly terms: Terms;
}

export function pairOf(policy: Policy, kept = 0): Pair {
  const rule =
    policy.algorithm === 'concurrency' ? new ConcurrencyRule(policy, kept) : ruleOf(policy);
  return { rule, terms: termsOf(policy, kept) };
}

/** How the clock moves before a step. `forth` and `back` go by a part of the policy's own span. */
const MOVES = [
  'stay',
  'stay',
  'stay',
  'retry',
  'retry',
  'next',
  'reset',
  'forth',
  'forth',
  'few',
  'tick',
  'boundary',
  'announced',
  'back',
  'backFew',
  'again',
  'leap',
  'plunge',
] as const;

const COSTS = [
  'one',
  'one',
  'few',
  'few',
  'zero',
  'left',
  'left',
  'leftAndOne',
  'quota',
  'aboveQuota',
  'part',
  'many',
  'huge',
] as const;

const DEEDS = [
  'consume',
  'consume',
  'consume',
  'consume',
  'consume',
  'consume',
  'peek',
  'charge',
  'charge',
  'refund',
  'settleDown',
  'settleDown',
  'settleUp',
  'renew',
] as const;

export interface Step {
  readonly deed: (typeof DEEDS)[number];
  readonly move: (typeof MOVES)[number];
  readonly cost: (typeof COSTS)[number];
  /** Which policy is in force: mostly the first. */
  readonly policy: number;
  /** What a deed, a move or a cost is made of, from 0 to 999. */
  readonly amount: number;
}

export const costs: fc.Arbitrary<Step['cost']> = fc.constantFrom(...COSTS);

export const step: fc.Arbitrary<Step> = fc.record({
  deed: fc.constantFrom(...DEEDS),
  move: fc.constantFrom(...MOVES),
  cost: costs,
  policy: fc.constantFrom(0, 0, 0, 1, 1, 2),
  amount: fc.nat(999),
});

export const steps: fc.Arbitrary<Step[]> = fc.array(step, {
  minLength: 1,
  maxLength: 500,
  size: 'max',
});

/** So few that a store has no occasion to forget a key that is whole, which it does whenever it likes. */
export const fewSteps: fc.Arbitrary<Step[]> = fc.array(step, { maxLength: 30, size: 'max' });

/** Histories begin at the epoch, today, or near the last instant. */
export const starts: fc.Arbitrary<number> = fc.oneof(
  fc.nat(3_000_000),
  fc.integer({ min: 1_600_000_000_000_000, max: 1_800_000_000_000_000 }),
  fc.integer({ min: LAST_INSTANT - 10_000_000, max: LAST_INSTANT }),
);

/** The span by which a policy's time runs, in microseconds. */
export function spanOf(policy: Policy): number {
  switch (policy.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket':
      // Until a full bucket is whole, but within reason.
      return Math.min(1e15, Math.ceil((policy.capacity * policy.per * 1_000) / policy.rate) + 2);
    case 'concurrency':
      return Math.round(policy.slotTimeout * 1_000);
    default:
      return Math.round(policy.window * 1_000);
  }
}

/** What was last announced of a key, as the next step's clock and cost may refer to it. */
export interface Announced {
  readonly at: number;
  readonly retryAfter: number;
  readonly nextAfter: number;
  readonly resetAfter: number;
  readonly remaining: number;
}

const fromMs = (ms: number): number => (Number.isFinite(ms) ? Math.round(ms * 1_000) : 0);

/** Where the clock stands after a move; `before` are instants at which the key was charged. */
export function moved(
  now: number,
  { move, amount }: Step,
  span: number,
  announced: Announced,
  before: readonly number[],
): number {
  const off = [-1, 0, 0, 1][amount % 4] as number;
  const tick = amount % 5 < 3 ? 1_000 : 1_000_000;
  const part = Math.floor((span * (amount + 1)) / 500);
  const to = {
    stay: now,
    few: now + 1 + (amount % 20),
    retry: announced.at + announced.retryAfter + off,
    next: announced.at + announced.nextAfter + off,
    reset: announced.at + announced.resetAfter + off,
    announced: announced.at,
    forth: now + part,
    tick: (Math.floor(now / tick) + 1 + (amount % 3)) * tick + off,
    boundary: (Math.floor(now / span) + 1 + (amount % 3)) * span + off,
    back: now - part,
    backFew: now - 1 - (amount % 20),
    again: before[amount % (before.length || 1)] ?? now,
    leap: now + amount * 31_000_000_000_000,
    plunge: now - amount * 31_000_000_000_000,
  }[move];
  return Math.max(0, Math.min(LAST_INSTANT, to));
}

/** How many units a step is about. */
export function unitsOf({ cost, amount }: Step, quota: number, remaining: number): number {
  const units = {
    zero: 0,
    one: 1,
    few: 2 + (amount % 4),
    left: remaining,
    leftAndOne: remaining + 1,
    quota,
    aboveQuota: quota + 1,
    part: Math.floor((quota * amount) / 1_000),
    many: quota * 3 + amount,
    huge: 2 ** (amount % 54) - 1,
  }[cost];
  return Math.min(Number.MAX_SAFE_INTEGER, units);
}

export function guessOf(answer: Answer, index: number): Guess {
  const verdict = answer.verdicts[index];
  return {
    remaining: verdict?.remaining ?? 0,
    nextAfter: fromMs(verdict?.nextAfterMs ?? 0),
    resetAfter: fromMs(verdict?.resetAfterMs ?? 0),
    retryAfter: fromMs(verdict?.retryAfterMs ?? 0),
    delay: answer.delay,
  };
}

/** Throws what differs between an answer and what the oracle told, first. */
export function compare(answer: Answer, told: Told, charges: readonly Charge[], now: number): void {
  const differs = (what: string, actual: unknown, expected: unknown): void => {
    if (actual !== expected) {
      throw new Error(`${what}: the store says ${String(actual)}, the oracle ${String(expected)}`);
    }
  };
  differs('at', answer.at, now);
  differs('delay', answer.delay, told.delay);
  differs('verdicts', answer.verdicts.length, charges.length);
  charges.forEach(({ name, key, rule, cost, shadow, receipt }, index) => {
    const verdict = answer.verdicts[index];
    const expected = told.verdicts[index] as Numbers;
    differs(`${name}: receipt`, receipt !== undefined, index in told.receipts);
    differs(`${name}: name`, verdict?.name, name);
    differs(`${name}: key`, verdict?.key, key);
    differs(`${name}: policy`, verdict?.policy, rule.policy);
    differs(`${name}: cost`, verdict?.cost, cost);
    differs(`${name}: shadow`, verdict?.shadow, shadow);
    differs(`${name}: source`, verdict?.source, 'store');
    differs(`${name}: allowed`, verdict?.allowed, expected.allowed);
    differs(`${name}: reason`, verdict?.reason, reasonOf(rule.policy, expected.allowed));
    differs(`${name}: limit`, verdict?.limit, expected.limit);
    differs(`${name}: remaining`, verdict?.remaining, expected.remaining);
    differs(`${name}: retryAfterMs`, verdict?.retryAfterMs, expected.retryAfter / 1_000);
    differs(`${name}: nextAfterMs`, verdict?.nextAfterMs, expected.nextAfter / 1_000);
    differs(`${name}: resetAfterMs`, verdict?.resetAfterMs, expected.resetAfter / 1_000);
  });
}

function reasonOf(policy: Policy, allowed: boolean): string {
  if (allowed) return 'ok';
  return policy.algorithm === 'concurrency' && policy.reserved !== undefined
    ? 'overloaded'
    : 'limited';
}
