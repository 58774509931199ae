import { describe, expect, test } from 'vitest';
import { TIMES } from '../../../test/seed.ts';
import type { Rule, State } from '../src/algorithm.ts';
import { ruleOf } from '../src/algorithms/index.ts';
import { LeaseRule, Leasing } from '../src/lease.ts';
import { fixedWindow, type Policy, slidingWindow, tokenBucket } from '../src/policy.ts';
import type { Told } from '../src/redis/grant.ts';
import { type Ask, type Brought, Lease } from '../src/redis/lease.ts';
import { explore, type Finding } from './lease-explorer.ts';
import { brokenPromise } from './lease-promises.ts';
import type { Setup } from './lease-world.ts';

const SECOND = 1_000_000;
/** Two seconds into a window of three. */
const FROM = 1_000_001 * SECOND;
/** By so many thousandths the clocks of two processes run fast, and that of the third slow. */
const DRIFTS = [-1, 1, 1];
const STEPS = TIMES === 1 ? 5 : 7;

const fixed = fixedWindow({ limit: 3, window: '3s' });
const sliding = slidingWindow({ limit: 3, window: '3s' });
const bucket = tokenBucket({ capacity: 10, rate: 4, per: '1s' });
const slow = tokenBucket({ capacity: 6, rate: 1, per: '1s' });

/** A lease of a second in a bucket, and else of two, within which a window ends. */
function termsOf(policy: Policy, overdraft = 0): LeaseRule {
  const syncMs = policy.algorithm === 'token-bucket' ? 1_000 : 2_000;
  return new Leasing({ share: 1, overdraft, syncMs }, 'lease').of(ruleOf(policy), 'policy');
}

function lookedAt(
  policy: Policy,
  steps: number,
  overdraft = 0,
  wrong: Partial<Setup> = {},
): { readonly worlds: number; readonly finding: Finding | undefined } {
  const setup: Setup = {
    terms: termsOf(policy, overdraft),
    drifts: DRIFTS,
    tick: policy === bucket ? SECOND / 2 : SECOND,
    from: FROM,
    ...wrong,
  };
  return explore(setup, steps, (world) => brokenPromise(policy, world, overdraft));
}

describe('whatever happens to three processes', () => {
  test.each([fixed, sliding, bucket])('$algorithm admits no more than it promises', (policy) => {
    // Of a bucket there are more worlds.
    const { worlds, finding } = lookedAt(policy, policy === bucket ? STEPS - 1 : STEPS);
    expect(finding).toBeUndefined();
    expect(worlds).toBeGreaterThan(2_000);
  });

  test.each([fixed, sliding, bucket])(
    '$algorithm with an overdraft admits no more than that over',
    (policy) => {
      const { worlds, finding } = lookedAt(policy, STEPS - 1, 1);
      expect(finding).toBeUndefined();
      expect(worlds).toBeGreaterThan(1_000);
    },
  );
});

/** Its time is counted from the reply, and not from before the call. */
class CountsFromReply extends Lease {
  override granted(ask: Ask, told: Told, now: number): Brought {
    return super.granted({ ...ask, at: now }, told, now);
  }
}

/** Spends what a call may have been granted whose reply is lost. */
class HopesForTheBest extends Lease {
  private hopedFor: Ask | undefined;

  override ask(...args: Parameters<Lease['ask']>): Ask | undefined {
    return (this.hopedFor = super.ask(...args));
  }

  override lost(): void {
    const ask = this.hopedFor;
    const isOfTheWorlds = (ask?.costs[0]?.[0] ?? 0) > 1_000;
    if (ask === undefined || isOfTheWorlds) return super.lost();
    const state = [FROM - 2 * SECOND, 3 * SECOND, 2, 0, 0, 0];
    super.granted(ask, { units: 2, free: 3, banned: 0, at: FROM, state }, ask.at);
  }
}

/** Keeps what it gives back. */
class KeepsWhatItReturns extends Lease {
  override end(): ReturnType<Lease['end']> {
    const { live } = this as unknown as { live: ReturnType<Lease['end']> };
    return live.map(({ units, receipt }) => ({ lease: this, units, receipt }));
  }
}

/** Takes units back that have run out. */
class TakesBackLate extends Lease {
  override takeBack(grant: Parameters<Lease['takeBack']>[0], units: number): boolean {
    return super.takeBack(Object.assign(grant, { until: Infinity }), units, 0);
  }
}

/** Takes for its own what pays what it owes. */
class ForgetsWhatItOwes extends Lease {
  override granted(ask: Ask, told: Told, now: number): Brought {
    this.owesLess(this.debt);
    return super.granted(ask, told, now);
  }
}

/** A rule with some methods replaced. */
function changed(rule: Rule, changes: Partial<Rule>): Rule {
  return Object.assign(Object.create(rule) as Rule, changes);
}

function ruledBy(policy: Policy, change: (rule: Rule) => Rule, time?: number): LeaseRule {
  const terms = termsOf(policy);
  return new LeaseRule(terms.leasing, change(terms.rule), 1, 0, time ?? terms.time);
}

type Bug = readonly [what: string, policy: Policy, wrong: Partial<Setup>, overdraft?: number];

const BUGS: readonly Bug[] = [
  ['time is counted from the reply', fixed, { Machine: CountsFromReply }],
  ['clocks run apart by more', fixed, { drifts: [-2, 2, 2] }],
  [
    'units outlive their window',
    fixed,
    { terms: ruledBy(fixed, (rule) => changed(rule, { usableFor: () => Infinity })) },
  ],
  [
    'units outlive their window',
    sliding,
    {
      terms: ruledBy(sliding, (rule) => changed(rule, { usableFor: () => Infinity }), 4 * SECOND),
    },
  ],
  ['a bucket keeps nothing back', bucket, { terms: ruledBy(bucket, () => ruleOf(bucket)) }],
  ['a lost reply is hoped to be good', fixed, { Machine: HopesForTheBest }],
  ['what is given back is kept as well', fixed, { Machine: KeepsWhatItReturns }],
  ['what has run out is taken back', fixed, { Machine: TakesBackLate }],
  ['more is granted than is free', fixed, { grant: (free) => (free === 0 ? 0 : free + 1) }],
  [
    'units of a bucket never run out',
    slow,
    { terms: ruledBy(slow, (rule) => rule, 100 * SECOND), tick: 3 * SECOND },
  ],
  [
    'what time gave back is given back again',
    slow,
    {
      tick: 3 * SECOND,
      terms: ruledBy(slow, (rule) =>
        changed(rule, {
          giveBack(this: Rule, state: State, units: number, now: number): boolean {
            this.refund(state, units, now);
            return true;
          },
        }),
      ),
    },
  ],
  ['what is owed is not paid', fixed, { Machine: ForgetsWhatItOwes }, 1],
];

test.each(BUGS.map((bug) => ({ bug, what: bug[0] })))('is found: $what', ({ bug }) => {
  const [, policy, wrong, overdraft] = bug;
  const { finding } = lookedAt(policy, 5, overdraft, wrong);
  expect(finding?.problem).toMatch(/ in | within |before/);
});
