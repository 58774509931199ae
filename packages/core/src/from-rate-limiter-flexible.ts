import { show, TollgateConfigError } from './errors.ts';
import type { LimitOptions } from './limits.ts';
import { fixedWindow } from './policy.ts';

/** The options of rate-limiter-flexible 11. Those that are only named here cannot be carried over, and say so. */
export interface RateLimiterFlexibleOptions {
  readonly points: number;
  /** In seconds. */
  readonly duration: number;
  readonly keyPrefix?: string | undefined;
  /** In seconds. */
  readonly blockDuration?: number | undefined;
  readonly blockOnConsumed?: number | undefined;
  readonly execEvenly?: boolean | undefined;
  readonly execEvenlyMinDelayMs?: number | undefined;
  readonly inMemoryBlockOnConsumed?: number | undefined;
  readonly inMemoryBlockDuration?: number | undefined;
  readonly insuranceLimiter?: unknown;
  readonly storeClient?: unknown;
  readonly rejectIfRedisNotReady?: boolean | undefined;
}

const CARRIED = ['points', 'duration', 'keyPrefix', 'blockDuration'];

const STORE =
  'leave it out; the store is the limiter’s: createLimiter({ store: redisStore(client), limits })';
const LOCALLY =
  'leave it out; with lease: {} in the limit a key that is known to be refused is refused without asking Redis';

/** What has no exact counterpart, and the mend. */
const MENDS: Readonly<Record<string, string>> = {
  blockOnConsumed: 'leave it out; ban: { after, within, for } bans after so many refusals',
  execEvenly:
    'leave it out; leakyBucket({ capacity, rate, per }) spreads requests, and limiter.wait() holds them',
  execEvenlyMinDelayMs: 'leave it out; leakyBucket({ capacity, rate, per }) spreads requests',
  inMemoryBlockOnConsumed: LOCALLY,
  inMemoryBlockDuration: LOCALLY,
  insuranceLimiter:
    'leave it out; whenStoreFails: "local" or { local: { share } } decides in memory while the store is away',
  storeClient: STORE,
  storeType: STORE,
  useRedisPackage: STORE,
  useRedis3AndLowerPackage: STORE,
  customIncrTtlLuaScript: STORE,
  rejectIfRedisNotReady:
    'leave it out; a call waits for Redis no longer than redisStore(client, { deadlineMs })',
};

const NAME = /^[A-Za-z][\w-]{0,63}$/;
const LONGEST_S = 400 * 86_400;

/**
 * The options of a limiter of rate-limiter-flexible, as a limit of a limiter of ours: `createLimiter({ limits:
 * [fromRateLimiterFlexible({ points: 5, duration: 60, keyPrefix: 'login' })] })`. `keyPrefix` becomes its name, default
 * `"rlflx"` as there, so `limiter.consume({ login: key }, { cost: points })` is `consume(key, points)`.
 *
 * Keys are admitted and refused as before, with these differences: windows are counted from the epoch and not from a
 * key's first request; what is refused is not charged, so that a dear request that was refused leaves the rest to
 * cheaper ones; a call answers with a decision, where theirs rejects; while the store fails, requests are refused as
 * `"store-unavailable"`, where theirs rejects with an error.
 *
 * @throws TollgateConfigError with path and mend, for an option that cannot be carried over exactly.
 */
export function fromRateLimiterFlexible(options: RateLimiterFlexibleOptions): LimitOptions {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected { points, duration }, got ${show(options)}`);
  }
  refuseOthers(options);
  const { points, duration, keyPrefix = 'rlflx', blockDuration = 0 } = options;
  if (typeof keyPrefix !== 'string' || !NAME.test(keyPrefix)) {
    throw new TollgateConfigError(
      'keyPrefix',
      `becomes the name of the limit: expected a letter and up to 63 letters, digits, "_" or "-", got ${show(keyPrefix)}`,
    );
  }
  if (!Number.isSafeInteger(points) || points < 0) {
    throw new TollgateConfigError(
      'points',
      `expected a whole number of 0 or more, got ${show(points)}`,
    );
  }
  checkSeconds(duration, 'duration');
  const ban = blockDuration === 0 ? undefined : banOf(blockDuration, duration);
  return {
    name: keyPrefix,
    policy: fixedWindow({ limit: points, window: milliseconds(duration) }),
    whenStoreFails: 'deny',
    ...(ban !== undefined && { ban }),
  };
}

/** A block that began with the first refusal, and no other block makes longer. */
function banOf(blockDuration: number, duration: number): NonNullable<LimitOptions['ban']> {
  checkSeconds(blockDuration, 'blockDuration');
  if (blockDuration < duration) {
    throw new TollgateConfigError(
      'blockDuration',
      `expected no less than the duration of ${duration}: a shorter block would give the budget back before its window ends`,
    );
  }
  const length = milliseconds(blockDuration);
  return { after: 1, within: milliseconds(duration), for: length, growth: 1, max: length };
}

function refuseOthers(options: RateLimiterFlexibleOptions): void {
  for (const [option, value] of Object.entries(options)) {
    const saysNothing = value === undefined || value === false || value === 0;
    if (CARRIED.includes(option) || saysNothing) continue;
    const mend = MENDS[option] ?? `has no counterpart; carried over are ${CARRIED.join(', ')}`;
    throw new TollgateConfigError(option, mend);
  }
}

function checkSeconds(value: unknown, path: string): void {
  if (typeof value === 'number' && value >= 0.001 && value <= LONGEST_S) return;
  throw new TollgateConfigError(
    path,
    value === 0
      ? 'a window that never ends is no rate; expected seconds, at most those of 400 days'
      : `expected seconds, from 0.001 to those of 400 days, got ${show(value)}`,
  );
}

/** Rounded to whole microseconds, which seconds with a fraction need not be. */
function milliseconds(seconds: number): number {
  return Math.round(seconds * 1_000_000) / 1_000;
}
