import fc from 'fast-check';
import {
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../src/policy.ts';

/**
 * Policies that one live key may see in turn: up to three that are related, so that what one of them left means
 * something to the next.
 */
export type Family = readonly Policy[];

interface BucketNumbers {
  readonly capacity: number;
  readonly rate: number;
  /** In microseconds. */
  readonly per: number;
}

const DAY_US = 86_400_000_000;
const MONTH_US = 30 * DAY_US;

/** Fractions of every kind come up within a few microseconds. */
const small = fc.record({
  capacity: fc.nat(6),
  rate: fc.integer({ min: 1, max: 9 }),
  per: fc.integer({ min: 1, max: 30 }),
});

const plain = fc.record({
  capacity: fc.constantFrom(0, 1, 5, 10, 60, 100, 1_000, 6_000),
  rate: fc.constantFrom(1, 3, 7, 10, 100, 1_000, 6_000),
  per: fc.constantFrom(1_000, 10_000, 1_000_000, 60_000_000, 3_600_000_000, DAY_US),
});

/** Counted in ticks of 1 µs, 1 ms and 1 s, up to the edge of what can be counted exactly. */
const odd = fc.constantFrom<BucketNumbers>(
  { capacity: 1_000, rate: 123_457, per: MONTH_US },
  { capacity: 1_737, rate: 123_457, per: MONTH_US },
  { capacity: 123_457, rate: 123_457, per: MONTH_US },
  { capacity: 1_000_000, rate: 123_457, per: MONTH_US },
  { capacity: 1_000_000_000, rate: 1_000_000_000, per: MONTH_US },
  { capacity: 1_000_000_000, rate: 999_999_937, per: MONTH_US },
  { capacity: 1_737_000_000, rate: 999_999_937, per: MONTH_US },
  { capacity: 10, rate: 1, per: 400 * DAY_US },
  { capacity: 2 ** 52 - 1, rate: 1, per: 1 },
  { capacity: 2 ** 51, rate: 999_983, per: 1 },
);

const wild = fc.record({
  capacity: fc.oneof(fc.nat(10_000), fc.nat(2_000_000_000)),
  rate: fc.oneof(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 1, max: 2_000_000_000 })),
  per: fc.oneof(fc.integer({ min: 1, max: 10_000_000 }), fc.integer({ min: 1, max: 400 * DAY_US })),
});

/** Two more policies made from the first by one change each. */
const changes = fc.array(
  fc.record({
    what: fc.constantFrom('quota', 'rate', 'span', 'both', 'kind'),
    by: fc.constantFrom(0, 1 / 7, 1 / 3, 1 / 2, 9 / 10, 11 / 10, 2, 3, 10),
  }),
  { minLength: 0, maxLength: 2 },
);

/** The policies that can be made: a change may lead beyond what can be counted. */
function family(makers: readonly (() => Policy)[]): Family {
  return makers.flatMap((make) => {
    try {
      return [make()];
    } catch {
      return [];
    }
  });
}

const atLeastOne = (number: number): number => Math.max(1, Math.round(number));

function buckets(make: (numbers: BucketNumbers) => Policy): fc.Arbitrary<Family> {
  return fc
    .tuple(fc.oneof(small, small, plain, odd, wild), changes)
    .map(([base, made]) =>
      family([
        () => make(base),
        ...made.map(({ what, by }) => () => {
          const { capacity, rate, per } = base;
          if (what === 'quota') return make({ ...base, capacity: Math.round(capacity * by) });
          if (what === 'rate') return make({ ...base, rate: atLeastOne(rate * by) });
          if (what === 'span') return make({ ...base, per: atLeastOne(per * by) });
          return make({
            capacity: Math.round(capacity * by),
            rate: atLeastOne(rate / (by || 1)),
            per: per + 1,
          });
        }),
      ]),
    )
    .filter((policies) => policies.length > 0);
}

export const tokenBuckets: fc.Arbitrary<Family> = buckets(({ capacity, rate, per }) =>
  capacity === 1
    ? gcra({ rate, per: per / 1_000 })
    : tokenBucket({ capacity, rate, per: per / 1_000 }),
);

export const leakyBuckets: fc.Arbitrary<Family> = buckets(({ capacity, rate, per }) =>
  leakyBucket({ capacity, rate, per: per / 1_000 }),
);

interface WindowNumbers {
  readonly limit: number;
  /** In microseconds. */
  readonly window: number;
  readonly spread?: boolean;
}

function windows(
  make: (numbers: WindowNumbers) => Policy,
  limits: fc.Arbitrary<number>,
): fc.Arbitrary<Family> {
  const base = fc.record({
    limit: limits,
    window: fc.oneof(
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom(1_000, 60_000_000, 3_600_000_000, DAY_US, MONTH_US, 999_983, 7_777_777),
      fc.integer({ min: 1, max: 400 * DAY_US }),
    ),
    spread: fc.constantFrom(false, false, true),
  });
  return fc
    .tuple(base, changes)
    .map(([numbers, made]) =>
      family([
        () => make(numbers),
        ...made.map(({ what, by }) => () => {
          const { limit, window, spread } = numbers;
          if (what === 'quota') return make({ ...numbers, limit: Math.round(limit * by) });
          if (what === 'kind') return make({ ...numbers, spread: !spread });
          const other = { ...numbers, window: atLeastOne(window * by) };
          return make(what === 'both' ? { ...other, limit: Math.round(limit * by) } : other);
        }),
      ]),
    )
    .filter((policies) => policies.length > 0);
}

const units = fc.oneof(
  fc.nat(8),
  fc.nat(8),
  fc.constantFrom(0, 10, 100, 6_000),
  fc.integer({ min: 0, max: 2_000_000_000 }),
  fc.constantFrom(2 ** 52, 2 ** 52 - 1),
);

export const fixedWindows: fc.Arbitrary<Family> = windows(
  ({ limit, window, spread }) =>
    fixedWindow({ limit, window: window / 1_000, spread: spread === true }),
  units,
);

export const slidingWindows: fc.Arbitrary<Family> = windows(
  ({ limit, window }) => slidingWindow({ limit, window: window / 1_000 }),
  fc.oneof(units, fc.constantFrom(123_457, 1_000_000_000, 3_474_000, 3_475_000_000)),
);

export const slidingLogs: fc.Arbitrary<Family> = windows(
  ({ limit, window }) => slidingLog({ limit: Math.min(limit, 10_000), window: window / 1_000 }),
  fc.oneof(
    { weight: 20, arbitrary: fc.nat(8) },
    { weight: 5, arbitrary: fc.nat(60) },
    { weight: 1, arbitrary: fc.constantFrom(1_000, 10_000) },
  ),
);

export const slots: fc.Arbitrary<Family> = windows(
  ({ limit, window, spread }) =>
    concurrency({
      limit,
      slotTimeout: window / 1_000,
      ...(spread === true ? { reserved: { critical: 0.4 } } : {}),
    }),
  fc.nat(12),
);

export const ALGORITHMS: readonly (readonly [Policy['algorithm'], fc.Arbitrary<Family>])[] = [
  ['token-bucket', tokenBuckets],
  ['leaky-bucket', leakyBuckets],
  ['fixed-window', fixedWindows],
  ['sliding-window', slidingWindows],
  ['sliding-log', slidingLogs],
  ['concurrency', slots],
];
