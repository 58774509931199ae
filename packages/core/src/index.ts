export type { Receipt, Rule, State } from './algorithm.ts';
export { ruleOf } from './algorithms/index.ts';
export type { BanOptions, BanRule } from './ban.ts';
export type { Decision } from './decision.ts';
export type { WhenStoreFails } from './booking.ts';
export type { Reason, Source, Verdict } from './verdict.ts';
export { type Duration, parseDuration } from './duration.ts';
export {
  TollgateArgumentError,
  TollgateClosedError,
  TollgateConfigError,
  TollgateStoreError,
} from './errors.ts';
export {
  fromRateLimiterFlexible,
  type RateLimiterFlexibleOptions,
} from './from-rate-limiter-flexible.ts';
export {
  type BanEvent,
  type DecisionEvent,
  type KeysEvent,
  type LeaseEvent,
  onEvent,
  type StoreCallEvent,
  type StoreErrorEvent,
  type StoreHealthEvent,
  type TollgateEvents,
  type UpdateEvent,
} from './events.ts';
export {
  createLimiter,
  type Limiter,
  type LimiterOptions,
  type Reply,
  type WaitOptions,
} from './limiter.ts';
export {
  type FieldKey,
  type FileKeyPart,
  type FileLimit,
  type FileMatch,
  limiterLimits,
  limitsSchema,
  parseLimits,
} from './limits-file.ts';
export {
  type LimitsWatch,
  loadLimits,
  type PolicyChange,
  type WatchOptions,
  watchLimits,
} from './limits-watch.ts';
export type { LeaseOptions, LeaseRule, Leasing } from './lease.ts';
export type { CallOptions, Cost, Keys, LimitOptions } from './limits.ts';
export type { Logger } from './logger.ts';
export type { MaybePromise } from './maybe-promise.ts';
export {
  type BucketOptions,
  concurrency,
  type ConcurrencyOptions,
  type ConcurrencyPolicy,
  fixedWindow,
  type FixedWindowOptions,
  type FixedWindowPolicy,
  gcra,
  type GcraOptions,
  leakyBucket,
  type LeakyBucketPolicy,
  parsePolicy,
  type Policy,
  type PolicyInput,
  slidingLog,
  type SlidingLogPolicy,
  slidingWindow,
  type SlidingWindowPolicy,
  tokenBucket,
  type TokenBucketPolicy,
  type WindowOptions,
} from './policy.ts';
export { type Counted, HeavyHitters } from './refusals/heavy-hitters.ts';
export type {
  KeyTally,
  MostRefused,
  MostRefusedOptions,
  RefusedKey,
  Tally,
} from './refusals/refused-key.ts';
export type { Answer, Charge, Correction, Mode, Store } from './store.ts';
export { type MemoryStore, memoryStore, type MemoryStoreOptions } from './stores/memory.ts';
export { TollgateWaitError } from './waiting.ts';
export * from './http.ts';
