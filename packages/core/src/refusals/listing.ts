import type { KeyTally, RefusedKey, Tally } from './refused-key.ts';

const MINUTE_MS = 60_000;

/** The keys refused most of tallies of several times or processes: at most `count` of each limit, the most refused first. */
export function mostRefused(tallies: readonly Tally[], count: number): readonly RefusedKey[] {
  const byName = new Map<string, Tally[]>();
  for (const tally of tallies) {
    const same = byName.get(tally.name);
    if (same === undefined) byName.set(tally.name, [tally]);
    else same.push(tally);
  }
  return [...byName.values()]
    .flatMap((same) => topOf(same, count))
    .toSorted((a, b) => b.count - a.count || (a.limit < b.limit ? -1 : a.limit > b.limit ? 1 : 0));
}

/** Of tallies of one limit, the latest last. */
function topOf(tallies: readonly Tally[], count: number): RefusedKey[] {
  const { name: limit = '', shadow = false } = tallies.at(-1) ?? {};
  return merged(tallies)
    .toSorted((a, b) => b.count - a.count || b.error - a.error || (a.key < b.key ? -1 : 1))
    .slice(0, count)
    .map(({ key, count: times, error, firstMs, lastMs }) => ({
      limit,
      shadow,
      key,
      count: times,
      errorBound: error,
      firstAtMs: firstMs,
      lastAtMs: lastMs,
      perMinute: (times * MINUTE_MS) / Math.max(MINUTE_MS, lastMs - firstMs),
    }));
}

/** What tallies say of each key together. One that does not name a key may have missed it so often as it says. */
function merged(tallies: readonly Tally[]): KeyTally[] {
  const missed = tallies.reduce((sum, tally) => sum + tally.missed, 0);
  const known = new Map<string, KeyTally>();
  for (const tally of tallies) {
    for (const { key, count, error, firstMs, lastMs } of tally.keys) {
      const sum = known.get(key);
      known.set(key, {
        key,
        count: (sum?.count ?? 0) + count,
        error: (sum?.error ?? missed) + error - tally.missed,
        firstMs: Math.min(sum?.firstMs ?? Infinity, firstMs),
        lastMs: Math.max(sum?.lastMs ?? -Infinity, lastMs),
      });
    }
  }
  return [...known.values()];
}
