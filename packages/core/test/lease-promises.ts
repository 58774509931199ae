import type { Policy, TokenBucketPolicy } from '../src/policy.ts';
import type { World } from './lease-world.ts';

/**
 * What is wrong with a world's admissions, by what the policy promises and not by what any store kept.
 *
 * @param over units that each process may have admitted before it had them.
 */
export function brokenPromise(policy: Policy, world: World, over: number): string | undefined {
  const { processes } = world;
  const debts = processes.map(({ lease }) => lease.debt);
  if (debts.some((debt) => debt > over)) return `owed: ${debts.join(', ')}`;
  const lives = processes.reduce((sum, { crashes }) => sum + 1 + crashes, 0);
  const instants = Array.from(world.admissions, ({ at }) => at).toSorted((a, b) => a - b);
  const most = over * lives;
  switch (policy.algorithm) {
    case 'fixed-window':
      return overfull(instants, policy.window * 1_000, policy.limit, most);
    case 'sliding-window':
      return beyondEstimate(instants, policy.window * 1_000, policy.limit, most);
    case 'token-bucket':
      return beyondBucket(instants, policy, most);
    default:
      throw new TypeError(`no promise of ${policy.algorithm} is known`);
  }
}

function countByWindow(instants: readonly number[], window: number): Map<number, number> {
  const counts = new Map<number, number>();
  for (const at of instants) {
    const index = Math.floor(at / window);
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  return counts;
}

/** No window admits more than the limit, and those up to any one, with what was over, no more than theirs. */
function overfull(
  instants: readonly number[],
  window: number,
  limit: number,
  over: number,
): string | undefined {
  const counts = countByWindow(instants, window);
  for (const [index, count] of counts) {
    if (count > limit + over) return `${count} in window ${index}`;
  }
  const [first] = counts.keys();
  const last = [...counts.keys()].at(-1);
  if (first === undefined || last === undefined) return undefined;
  const all = instants.length;
  return all > limit * (last - first + 1) + over ? `${all} in all windows` : undefined;
}

/** At every admission, this window's and what is left of the one before it are within the limit. */
function beyondEstimate(
  instants: readonly number[],
  window: number,
  limit: number,
  over: number,
): string | undefined {
  for (const [place, at] of instants.entries()) {
    const index = Math.floor(at / window);
    const until = instants.slice(0, place + 1).map((each) => Math.floor(each / window));
    const count = until.filter((each) => each === index).length;
    const previous = until.filter((each) => each === index - 1).length;
    const left = (index + 1) * window - at;
    if (previous * left > (limit + over - count) * window) {
      return `${count} and ${previous} before with ${left} µs left`;
    }
  }
  return undefined;
}

/** No more in any span than the capacity and what flows in meanwhile. */
function beyondBucket(
  instants: readonly number[],
  policy: TokenBucketPolicy,
  over: number,
): string | undefined {
  const { capacity, rate, per } = policy;
  for (const [from, first] of instants.entries()) {
    for (let to = from; to < instants.length; to++) {
      const span = (instants[to] as number) - first;
      const count = to - from + 1;
      if (count > capacity + over + Math.floor((span * rate) / (per * 1_000))) {
        return `${count} within ${span} µs`;
      }
    }
  }
  return undefined;
}
