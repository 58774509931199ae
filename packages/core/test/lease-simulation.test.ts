import { describe, expect, test } from 'vitest';
import { nextSeed, TIMES } from '../../../test/seed.ts';
import { fixedWindow, slidingWindow, tokenBucket } from '../src/policy.ts';
import { type DesignName, type Fleet, type Outcome, simulate } from './lease-simulation.ts';

const SECONDS = TIMES === 1 ? 2 : 30;
const LIMIT = 1_000;
const BURST = 200;
const fixed = fixedWindow({ limit: LIMIT, window: '1s' });
const sliding = slidingWindow({ limit: LIMIT, window: '1s' });
const bucket = tokenBucket({ capacity: BURST, rate: LIMIT, per: '1s' });

/** The most that is admitted from any whole second on within one. */
function mostInWindow({ admitted }: Outcome): number {
  const counts = new Map<number, number>();
  for (const at of admitted) {
    const index = Math.floor(at / 1_000_000);
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  return Math.max(...counts.values());
}

/** The most that is admitted in any second, whenever it begins. */
function mostInSecond({ admitted }: Outcome): number {
  const instants = admitted.toSorted((a, b) => a - b);
  let most = 0;
  for (let from = 0, to = 0; to < instants.length; to++) {
    while ((instants[to] as number) - (instants[from] as number) > 1_000_000) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

const DESIGNS: readonly (readonly [title: string, design: DesignName])[] = [
  ['each request asks', 'each asks'],
  ['deltas every 10 ms', { deltasMs: 10 }],
  ['deltas every 50 ms', { deltasMs: 50 }],
  ['deltas every 200 ms', { deltasMs: 200 }],
  ['leases of 20 ms', { leaseMs: 20 }],
  ['leases of 100 ms', { leaseMs: 100 }],
];

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** One line of the table: overshoot, what is served of what the limit allows, and calls per decision. */
function row(title: string, fleet: Fleet, design: DesignName, most: number): string {
  const outcome = simulate(fleet, design, 1);
  const { admitted, requests, calls } = outcome;
  const isBucket = fleet.policy.algorithm === 'token-bucket';
  const peak = isBucket ? mostInSecond(outcome) : mostInWindow(outcome);
  const allowed = Math.min(requests, LIMIT * fleet.seconds + (isBucket ? BURST : 0));
  const over = percent(Math.max(0, peak / most - 1));
  const served = percent(admitted.length / allowed);
  const each = (calls / requests).toFixed(4);
  return `| ${title} | ${fleet.processes} | ${fleet.perSecond / LIMIT}x | ${over} | ${served} | ${each} |`;
}

describe('simulated fleets', () => {
  test('print how designs compare', () => {
    const lines: string[] = [];
    for (const load of [0.8, 3, 20]) {
      for (const [title, design] of DESIGNS) {
        const common = { processes: 10, perSecond: load * LIMIT, seconds: SECONDS };
        lines.push(row(`fixed window, ${title}`, { ...common, policy: fixed }, design, LIMIT));
        const most = LIMIT + BURST;
        lines.push(row(`token bucket, ${title}`, { ...common, policy: bucket }, design, most));
      }
    }
    for (const processes of TIMES === 1 ? [100] : [100, 1_000]) {
      const fleet = { processes, perSecond: 3 * LIMIT, seconds: SECONDS, policy: fixed };
      for (const [title, design] of DESIGNS) {
        lines.push(row(`fixed window, ${title}`, fleet, design, LIMIT));
      }
    }
    const head = ['limit and design', 'processes', 'load', 'overshoot', 'served', 'calls each'];
    console.log(`| ${head.join(' | ')} |\n${lines.toSorted().join('\n')}`);
    expect(lines.length).toBeGreaterThan(0);
  });

  test.each([10, 100])(
    '%i processes never exceed a limit by leases, and serve nearly all of it',
    (processes) => {
      for (const policy of [fixed, sliding]) {
        const fleet = { policy, processes, perSecond: 3 * LIMIT, seconds: 3 };
        const outcome = simulate(fleet, { leaseMs: 100 }, nextSeed());
        expect(mostInWindow(outcome)).toBeLessThanOrEqual(LIMIT);
      }
      const whole = { policy: fixed, processes, perSecond: 3 * LIMIT, seconds: 3 };
      const outcome = simulate(whole, { leaseMs: 100 }, nextSeed());
      expect(outcome.admitted.length).toBeGreaterThan(0.9 * 3 * LIMIT);
      const flowing = { ...whole, policy: bucket };
      expect(mostInSecond(simulate(flowing, { leaseMs: 100 }, nextSeed()))).toBeLessThanOrEqual(
        LIMIT + BURST,
      );
    },
  );

  test('deltas exceed it, which the simulation shows', () => {
    const fleet = { policy: fixed, processes: 10, perSecond: 3 * LIMIT, seconds: 3 };
    expect(mostInWindow(simulate(fleet, { deltasMs: 200 }, nextSeed()))).toBeGreaterThan(
      1.3 * LIMIT,
    );
  });
});
