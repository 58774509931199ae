import { z } from 'zod';
import { type Duration, parseDuration } from './duration.ts';
import { show, TollgateConfigError } from './errors.ts';
import { drainRate, windowTick } from './tick.ts';

/** Holds `capacity` tokens and gains `rate` tokens per `per` milliseconds. */
export interface TokenBucketPolicy {
  readonly algorithm: 'token-bucket';
  readonly capacity: number;
  readonly rate: number;
  readonly per: number;
}

/** At most `limit` units in each window of `window` milliseconds, counted from the epoch in UTC. */
export interface FixedWindowPolicy {
  readonly algorithm: 'fixed-window';
  readonly limit: number;
  readonly window: number;
  /** Gives each key an offset of its own, so that all windows do not end at one instant. */
  readonly spread?: true;
}

/** Two counters; what is left of the previous window weighs on the current one. `window` in milliseconds. */
export interface SlidingWindowPolicy {
  readonly algorithm: 'sliding-window';
  readonly limit: number;
  readonly window: number;
}

/** One timestamp per unit: never more than `limit` units in any span of `window` milliseconds. */
export interface SlidingLogPolicy {
  readonly algorithm: 'sliding-log';
  readonly limit: number;
  readonly window: number;
}

/** A queue of at most `capacity` units that drains at `rate` units per `per` milliseconds. */
export interface LeakyBucketPolicy {
  readonly algorithm: 'leaky-bucket';
  readonly capacity: number;
  readonly rate: number;
  readonly per: number;
}

/** At most `limit` requests in flight; a slot not renewed for `slotTimeout` milliseconds is free again. */
export interface ConcurrencyPolicy {
  readonly algorithm: 'concurrency';
  readonly limit: number;
  readonly slotTimeout: number;
  /** Shares of the limit that only a priority, and those above it, may use. */
  readonly reserved?: Readonly<Record<string, number>>;
}

/** An algorithm with its numbers: frozen, plain, serialisable data. Durations are milliseconds. */
export type Policy =
  | TokenBucketPolicy
  | FixedWindowPolicy
  | SlidingWindowPolicy
  | SlidingLogPolicy
  | LeakyBucketPolicy
  | ConcurrencyPolicy;

export interface BucketOptions {
  /** Units the bucket holds: a whole number; 0 refuses everything. */
  readonly capacity: number;
  /** Units given back per `per`: a whole number above 0. */
  readonly rate: number;
  readonly per: Duration;
}

export interface GcraOptions {
  /** Units per `per` in the long run: a whole number above 0. */
  readonly rate: number;
  readonly per: Duration;
  /** Units admitted at once: a whole number, default 1; 0 refuses everything. */
  readonly burst?: number;
}

export interface WindowOptions {
  /** Units per window: a whole number; 0 refuses everything. */
  readonly limit: number;
  /** At most 400 days. */
  readonly window: Duration;
}

export interface FixedWindowOptions extends WindowOptions {
  /** Offsets each key's windows by a hash of the key; default false. */
  readonly spread?: boolean;
}

export interface ConcurrencyOptions {
  /** Requests in flight: a whole number; 0 refuses everything. */
  readonly limit: number;
  /** How long a crashed holder keeps its slot; default `"60s"`. */
  readonly slotTimeout?: Duration;
  /** Priority to share of the limit kept for it, such as `{ critical: 0.2 }`; the shares' sum is below 1. */
  readonly reserved?: Readonly<Record<string, number>>;
}

/** A policy as written by hand or read from JSON. */
export type PolicyInput =
  | Policy
  | ({ readonly algorithm: 'token-bucket' | 'leaky-bucket' } & BucketOptions)
  | ({ readonly algorithm: 'gcra' } & GcraOptions)
  | ({ readonly algorithm: 'fixed-window' } & FixedWindowOptions)
  | ({ readonly algorithm: 'sliding-window' | 'sliding-log' } & WindowOptions)
  | ({ readonly algorithm: 'concurrency' } & ConcurrencyOptions);

const LONGEST_LOG = 10_000;

const units = z.int().min(0);
const rate = z.int().min(1);
const duration = z.union([z.number(), z.string()]);
const bucket = { capacity: units, rate, per: duration };
const window = { limit: units, window: duration };

const SHAPES = {
  'token-bucket': z.strictObject({ algorithm: z.literal('token-bucket'), ...bucket }),
  'leaky-bucket': z.strictObject({ algorithm: z.literal('leaky-bucket'), ...bucket }),
  gcra: z.strictObject({
    algorithm: z.literal('gcra'),
    rate,
    per: duration,
    burst: units.optional(),
  }),
  'fixed-window': z.strictObject({
    algorithm: z.literal('fixed-window'),
    ...window,
    spread: z.boolean().optional(),
  }),
  'sliding-window': z.strictObject({ algorithm: z.literal('sliding-window'), ...window }),
  'sliding-log': z.strictObject({
    algorithm: z.literal('sliding-log'),
    limit: units.max(LONGEST_LOG),
    window: duration,
  }),
  concurrency: z.strictObject({
    algorithm: z.literal('concurrency'),
    limit: units,
    slotTimeout: duration.optional(),
    reserved: z.record(z.string(), z.number().min(0).lt(1)).optional(),
  }),
} as const;

/** The shapes of all policies, as a file may hold them. What no shape can say, such as that a rate is exact, `parsePolicy` checks. */
export const policyShape: z.ZodType<PolicyInput> = z.union(Object.values(SHAPES)) as never;

/** What other libraries call our options; the first of ours that the policy has is named in the message. */
const FOREIGN_NAMES: Readonly<Record<string, readonly string[]>> = {
  max: ['limit', 'capacity', 'burst'],
  maxTokens: ['capacity', 'burst', 'limit'],
  points: ['limit', 'capacity', 'rate'],
  tokens: ['capacity', 'burst', 'limit'],
  limit: ['capacity', 'rate'],
  capacity: ['limit', 'burst'],
  burst: ['capacity', 'limit'],
  windowMs: ['window', 'per', 'slotTimeout'],
  timeWindow: ['window', 'per', 'slotTimeout'],
  duration: ['window', 'per', 'slotTimeout'],
  ttl: ['slotTimeout', 'window', 'per'],
  timeout: ['slotTimeout', 'window', 'per'],
  interval: ['per', 'window'],
  window: ['per', 'slotTimeout'],
  per: ['window', 'slotTimeout'],
  refillRate: ['rate', 'limit'],
  refill: ['rate', 'limit'],
  concurrency: ['limit'],
  maxConcurrent: ['limit'],
  keyGenerator: ['by'],
};

/** Says which of our options an unknown one means, or which there are. */
export function unknownOption(
  option: string,
  known: readonly string[],
  foreign: Readonly<Record<string, readonly string[]>> = FOREIGN_NAMES,
): string {
  const names = Object.hasOwn(foreign, option) ? (foreign[option] ?? []) : [];
  const meant = names.find((name) => known.includes(name));
  if (meant !== undefined) return `unknown option; Tollgate calls it \`${meant}\``;
  const elsewhere = names[0] === undefined ? '' : `Tollgate calls it \`${names[0]}\`, not here; `;
  return `unknown option; ${elsewhere}there are ${known.join(', ')}`;
}

function join(path: string, key: PropertyKey): string {
  if (typeof key === 'number') return `${path}[${key}]`;
  return path === '' ? String(key) : `${path}.${String(key)}`;
}

function expected(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'too_small':
      return `a number of ${issue.minimum} or more`;
    case 'too_big':
      return `a number ${issue.inclusive ? 'of at most' : 'below'} ${issue.maximum}`;
    case 'invalid_type':
      return (
        { int: 'a whole number', number: 'a number', object: 'an object' }[
          issue.expected as string
        ] ?? `a ${issue.expected}`
      );
    case 'invalid_union':
      return 'a duration, a number of milliseconds or text like "10s"';
    default:
      return issue.message;
  }
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key],
    input,
  );
}

/** Throws what is wrong with `input` first, in our words. */
function refuse(error: z.ZodError, input: unknown, path: string, known: readonly string[]): never {
  // A name that is not ours explains what is missing.
  const issue = error.issues.find(({ code }) => code === 'unrecognized_keys') ?? error.issues[0];
  if (issue === undefined) throw error;
  const at = issue.path.reduce<string>(join, path);
  if (issue.code === 'unrecognized_keys') {
    const option = issue.keys[0] ?? '';
    throw new TollgateConfigError(join(at, option), unknownOption(option, known));
  }
  const value = valueAt(input, issue.path);
  throw new TollgateConfigError(
    at,
    value === undefined
      ? `missing; expected ${expected(issue)}`
      : `expected ${expected(issue)}, got ${show(value)}`,
  );
}

function bucketPolicy<Tag extends 'token-bucket' | 'leaky-bucket'>(
  algorithm: Tag,
  { capacity, rate, per }: BucketOptions,
  path: string,
): { algorithm: Tag; capacity: number; rate: number; per: number } {
  const policy = { algorithm, capacity, rate, per: parseDuration(per, join(path, 'per')) };
  if (drainRate(capacity, rate, Math.round(policy.per * 1_000)) === undefined) {
    throw new TollgateConfigError(
      join(path, 'capacity'),
      `${capacity} with ${rate} per ${policy.per} ms cannot be counted exactly, or takes over a century to refill; lower the capacity or use a rounder rate`,
    );
  }
  return policy;
}

function windowPolicy<Tag extends 'fixed-window' | 'sliding-window' | 'sliding-log'>(
  algorithm: Tag,
  { limit, window }: WindowOptions,
  path: string,
): { algorithm: Tag; limit: number; window: number } {
  return { algorithm, limit, window: parseDuration(window, join(path, 'window')) };
}

function concurrencyPolicy(
  { limit, slotTimeout = '60s', reserved }: ConcurrencyOptions,
  path: string,
): ConcurrencyPolicy {
  const timeout = parseDuration(slotTimeout, join(path, 'slotTimeout'));
  if (reserved === undefined) return { algorithm: 'concurrency', limit, slotTimeout: timeout };
  const sum = Object.values(reserved).reduce((total, share) => total + share, 0);
  if (sum > 1 - 1e-9) {
    throw new TollgateConfigError(
      join(path, 'reserved'),
      `the shares add up to ${sum}; their sum must stay below 1`,
    );
  }
  return {
    algorithm: 'concurrency',
    limit,
    slotTimeout: timeout,
    reserved: Object.freeze({ ...reserved }),
  };
}

function normalise(input: PolicyInput, path: string): Policy {
  switch (input.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket':
      return bucketPolicy(input.algorithm, input, path);
    case 'gcra': {
      const { rate, per, burst = 1 } = input;
      return bucketPolicy('token-bucket', { capacity: burst, rate, per }, path);
    }
    case 'fixed-window': {
      const policy = windowPolicy('fixed-window', input, path);
      return input.spread === true ? { ...policy, spread: true } : policy;
    }
    case 'sliding-window': {
      const policy = windowPolicy('sliding-window', input, path);
      if (windowTick(policy.limit, Math.round(policy.window * 1_000)) === undefined) {
        throw new TollgateConfigError(
          join(path, 'limit'),
          `${policy.limit} per ${policy.window} ms cannot be counted exactly; lower the limit or use a window of whole seconds`,
        );
      }
      return policy;
    }
    case 'sliding-log':
      return windowPolicy('sliding-log', input, path);
    case 'concurrency':
      return concurrencyPolicy(input, path);
  }
}

const parsed = new WeakSet<object>();

/**
 * Validates a policy written by hand or read from JSON and returns its normal form: frozen, with durations in
 * milliseconds, defaults filled in, and `gcra` written as the token bucket that it is.
 *
 * @param path names the policy in errors, such as `limits[0].policy`.
 * @throws TollgateConfigError with the path of the option at fault and the mend.
 */
export function parsePolicy(input: unknown, path = ''): Policy {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new TollgateConfigError(
      path,
      `expected a policy, such as tokenBucket({ capacity: 100, rate: 10, per: "1s" }), got ${show(input)}`,
    );
  }
  if (parsed.has(input)) return input as Policy;
  const algorithm = (input as { algorithm?: unknown }).algorithm;
  if (typeof algorithm !== 'string' || !Object.hasOwn(SHAPES, algorithm)) {
    throw new TollgateConfigError(
      join(path, 'algorithm'),
      `expected one of ${Object.keys(SHAPES).join(', ')}, got ${show(algorithm)}`,
    );
  }
  const shape = SHAPES[algorithm as keyof typeof SHAPES];
  const result = shape.safeParse(input);
  if (!result.success) {
    const known = Object.keys(shape.shape).filter((name) => name !== 'algorithm');
    return refuse(result.error, input, path, known);
  }
  const policy = Object.freeze(normalise(result.data as PolicyInput, path));
  parsed.add(policy);
  return policy;
}

function make<P extends Policy>(algorithm: string, options: object): P {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected the options of ${algorithm}, got ${show(options)}`);
  }
  return parsePolicy({ ...options, algorithm }) as P;
}

/**
 * A bucket that holds `capacity` tokens and gains `rate` tokens per `per`, continuously.
 * In any span of time t it admits at most capacity + rate · t.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function tokenBucket(options: BucketOptions): TokenBucketPolicy {
  return make('token-bucket', options);
}

/**
 * The same promise in the words of the generic cell rate algorithm: `burst` admitted at once (default 1),
 * then `rate` per `per`. Normalised to a token bucket of capacity `burst`.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function gcra(options: GcraOptions): TokenBucketPolicy {
  return make('gcra', options);
}

/**
 * At most `limit` units per window, windows counted from the epoch in UTC. Simple and exact per window, but two
 * windows' worth may pass around a boundary.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function fixedWindow(options: FixedWindowOptions): FixedWindowPolicy {
  return make('fixed-window', options);
}

/**
 * Two fixed windows, the previous one weighted by what is left of it. O(1) and close to a true sliding window;
 * in the worst case just under twice the limit passes in one span of `window`.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function slidingWindow(options: WindowOptions): SlidingWindowPolicy {
  return make('sliding-window', options);
}

/**
 * Exact: never more than `limit` units in any span of `window`. Remembers one timestamp per unit, so `limit` is at
 * most 10,000.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function slidingLog(options: WindowOptions): SlidingLogPolicy {
  return make('sliding-log', options);
}

/**
 * A queue that drains at `rate` per `per` with room for `capacity` units. The verdict says how long to hold a
 * request so that they leave evenly.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function leakyBucket(options: BucketOptions): LeakyBucketPolicy {
  return make('leaky-bucket', options);
}

/**
 * At most `limit` requests in flight. `slotTimeout` frees the slot of a holder that crashed; `reserved` keeps shares
 * of the limit, each times the limit and rounded up, for the priorities named and those above them.
 *
 * @throws TollgateConfigError on a wrong option.
 */
export function concurrency(options: ConcurrencyOptions): ConcurrencyPolicy {
  return make('concurrency', options);
}
