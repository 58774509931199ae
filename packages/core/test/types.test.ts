import { expect, expectTypeOf, it } from 'vitest';
import {
  type CallOptions,
  concurrency,
  type ConcurrencyPolicy,
  createLimiter,
  type Decision,
  fixedWindow,
  type FixedWindowPolicy,
  gcra,
  type LeakyBucketPolicy,
  leakyBucket,
  type Limiter,
  type LimiterOptions,
  type LimitOptions,
  type MaybePromise,
  type MemoryStore,
  memoryStore,
  type MemoryStoreOptions,
  parsePolicy,
  type Policy,
  type PolicyInput,
  slidingLog,
  type SlidingLogPolicy,
  slidingWindow,
  type SlidingWindowPolicy,
  type Store,
  tokenBucket,
  type TokenBucketPolicy,
  type Verdict,
  type WaitOptions,
} from '../src/index.ts';

// What is said here is checked by the compiler. The tests run so that what compiles is seen to work, too.

const policy = tokenBucket({ capacity: 5, rate: 1, per: '1s' });
const limits = [{ name: 'ip', policy }];
const ip = 'a';

/** What each call of a limiter answers. */
type Answer<L, Call extends 'consume' | 'peek' | 'charge' | 'refund' | 'reset' | 'close' | 'wait'> =
  L extends Record<Call, (...args: never[]) => infer A> ? A : never;

it('answers with values on a memory store, given or by default', () => {
  expectTypeOf<Answer<Limiter<MemoryStore>, 'consume'>>().toEqualTypeOf<Decision>();
  expectTypeOf<Answer<Limiter<MemoryStore>, 'peek'>>().toEqualTypeOf<Decision>();
  expectTypeOf<Answer<Limiter<MemoryStore>, 'charge'>>().toEqualTypeOf<Decision>();
  expectTypeOf<Answer<Limiter<MemoryStore>, 'refund'>>().toEqualTypeOf<void>();
  expectTypeOf<Answer<Limiter<MemoryStore>, 'reset'>>().toEqualTypeOf<void>();
  expectTypeOf<Answer<Limiter<MemoryStore>, 'close'>>().toEqualTypeOf<void>();
  expectTypeOf<Answer<Limiter<MemoryStore>, 'wait'>>().toEqualTypeOf<Promise<Decision>>();

  const given = createLimiter({ store: memoryStore(), limits });
  const byDefault = createLimiter({ limits });
  expectTypeOf(given).toEqualTypeOf<Limiter<MemoryStore>>();
  expectTypeOf(byDefault).toEqualTypeOf<Limiter<MemoryStore>>();
  expectTypeOf(given.consume({ ip })).toEqualTypeOf<Decision>();
  expect(byDefault.consume({ ip }).allowed).toBe(true);
});

it('answers with promises on a store that does', () => {
  expectTypeOf<Answer<Limiter<Store<true>>, 'consume'>>().toEqualTypeOf<Promise<Decision>>();
  expectTypeOf<Answer<Limiter<Store<true>>, 'refund'>>().toEqualTypeOf<Promise<void>>();
  expectTypeOf<Answer<Limiter<Store<true>>, 'close'>>().toEqualTypeOf<Promise<void>>();
});

it('answers with either on a store of unknown kind', async () => {
  expectTypeOf<Answer<Limiter<Store>, 'consume'>>().toEqualTypeOf<MaybePromise<Decision>>();
  expectTypeOf<Answer<Limiter, 'peek'>>().toEqualTypeOf<MaybePromise<Decision>>();
  expectTypeOf<Answer<Limiter, 'reset'>>().toEqualTypeOf<MaybePromise<void>>();
  const store: Store = memoryStore();
  const decision = createLimiter({ store, limits }).consume({ ip });
  expectTypeOf(decision).toEqualTypeOf<MaybePromise<Decision>>();
  // @ts-expect-error it may be a promise, which must be awaited first
  expect(decision.allowed).toBe(true);
  expect((await decision).allowed).toBe(true);
});

it('takes a limiter on memory where any limiter will do', () => {
  const use = (limiter: Limiter): MaybePromise<Decision> => limiter.peek({ ip });
  expect(use(createLimiter({ limits }))).toMatchObject({ allowed: true });
});

it('knows each policy by its constructor', () => {
  expectTypeOf(tokenBucket).returns.toEqualTypeOf<TokenBucketPolicy>();
  expectTypeOf(gcra).returns.toEqualTypeOf<TokenBucketPolicy>();
  expectTypeOf(leakyBucket).returns.toEqualTypeOf<LeakyBucketPolicy>();
  expectTypeOf(fixedWindow).returns.toEqualTypeOf<FixedWindowPolicy>();
  expectTypeOf(slidingWindow).returns.toEqualTypeOf<SlidingWindowPolicy>();
  expectTypeOf(slidingLog).returns.toEqualTypeOf<SlidingLogPolicy>();
  expectTypeOf(concurrency).returns.toEqualTypeOf<ConcurrencyPolicy>();
  expectTypeOf(parsePolicy).parameter(0).toBeUnknown();
  expectTypeOf(parsePolicy).returns.toEqualTypeOf<Policy>();
  expectTypeOf<Policy>().toExtend<PolicyInput>();
});

it('takes policies written by hand', () => {
  const plans: readonly PolicyInput[] = [
    { algorithm: 'token-bucket', capacity: 5, rate: 1, per: '1s' },
    { algorithm: 'leaky-bucket', capacity: 5, rate: 1, per: 250 },
    { algorithm: 'gcra', rate: 1, per: '1 s' },
    { algorithm: 'gcra', rate: 1, per: '1s', burst: 3 },
    { algorithm: 'fixed-window', limit: 5, window: '1m', spread: false },
    { algorithm: 'sliding-window', limit: 5, window: '1m' },
    { algorithm: 'sliding-log', limit: 5, window: '1m' },
    { algorithm: 'concurrency', limit: 5, reserved: { critical: 0.2 } },
  ];
  for (const plan of plans) {
    const limiter = createLimiter({ limits: [{ name: 'ip', policy: plan }] });
    expect(limiter.peek({ ip }, { policies: { ip: plan } }).allowed).toBe(true);
    limiter.update('ip', plan);
  }
});

it('has decisions that say all they know, and let nobody change it', () => {
  const decision = createLimiter({ limits }).consume({ ip });
  expectTypeOf(decision.binding).toEqualTypeOf<Verdict | undefined>();
  expectTypeOf(decision.verdicts).toEqualTypeOf<readonly Verdict[]>();
  expectTypeOf(decision.retryAfterMs).toBeNumber();
  expectTypeOf<Decision>().toHaveProperty('settle').returns.toEqualTypeOf<MaybePromise<void>>();
  expectTypeOf<Parameters<Decision['settle']>>().toEqualTypeOf<
    [actual: number | Readonly<Record<string, number>>]
  >();
  expectTypeOf<Decision>().toHaveProperty('release').returns.toEqualTypeOf<MaybePromise<void>>();
  expectTypeOf(decision.reason).toEqualTypeOf<
    'ok' | 'limited' | 'banned' | 'denied' | 'overloaded' | 'store-unavailable'
  >();
  expectTypeOf(decision.source).toEqualTypeOf<'store' | 'lease' | 'fallback' | 'none'>();
  // @ts-expect-error a decision is made
  expect((): boolean => (decision.allowed = true)).toBeTypeOf('function');
  // @ts-expect-error a policy is frozen
  expect(() => (policy.capacity = 6)).toThrow(TypeError);
});

it('takes no wrong option', () => {
  const wrong: unknown[] = [
    // @ts-expect-error there is no such option
    (): Policy => tokenBucket({ capacity: 1, rate: 1, per: '1s', burst: 1 }),
    // @ts-expect-error another library's names
    (): Policy => fixedWindow({ max: 1, windowMs: 1 }),
    // @ts-expect-error a rate has a `per`
    (): Policy => gcra({ rate: 1 }),
    // @ts-expect-error a string is no number
    (): Policy => slidingWindow({ limit: '5', window: '1s' }),
    // @ts-expect-error a date is no duration
    (): Policy => slidingLog({ limit: 5, window: new Date() }),
    // @ts-expect-error shares are numbers
    (): Policy => concurrency({ limit: 5, reserved: { critical: '20%' } }),
    // @ts-expect-error there is no such algorithm
    (): PolicyInput => ({ algorithm: 'bucket', capacity: 1, rate: 1, per: 1 }),
    // @ts-expect-error a window has no rate
    (): PolicyInput => ({ algorithm: 'fixed-window', limit: 1, window: 1, rate: 1 }),
    // @ts-expect-error a limiter has limits
    (): LimiterOptions => ({}),
    // @ts-expect-error there is no such option
    (): LimiterOptions => ({ limits, windowMs: 5 }),
    // @ts-expect-error a limit has a name
    (): LimitOptions => ({ policy }),
    // @ts-expect-error there is no such mode
    (): LimitOptions => ({ name: 'ip', policy, mode: 'off' }),
    // @ts-expect-error there is no such way to fail
    (): LimitOptions => ({ name: 'ip', policy, whenStoreFails: 'open' }),
    // @ts-expect-error a share is a number
    (): LimitOptions => ({ name: 'ip', policy, whenStoreFails: { local: { share: '10%' } } }),
    // @ts-expect-error whose budget is charged is said by the call
    (): LimitOptions => ({ name: 'ip', policy, keyGenerator: String }),
    // @ts-expect-error a cost is a number, or numbers by name
    (): CallOptions => ({ cost: '5' }),
    // @ts-expect-error there is no such option
    (): CallOptions => ({ weight: 5 }),
    // @ts-expect-error a policy is brought by name
    (): CallOptions => ({ policies: policy }),
    // @ts-expect-error only a wait has an end
    (): CallOptions => ({ maxWaitMs: 5 }),
    // @ts-expect-error milliseconds are a number
    (): WaitOptions => ({ maxWaitMs: '5s' }),
    // @ts-expect-error there is no such option
    (): MemoryStoreOptions => ({ max: 5 }),
  ];
  expect(wrong.every((each) => typeof each === 'function')).toBe(true);
});

it('takes no wrong argument', () => {
  const limiter = createLimiter({ limits });
  // @ts-expect-error keys are strings
  expect(() => limiter.consume({ ip: 5 })).toThrow(TypeError);
  // @ts-expect-error a key may be missing, not null
  expect(() => limiter.consume({ ip: null })).toThrow(TypeError);
  // @ts-expect-error keys stand by their limit's name
  expect(() => limiter.consume('a')).toThrow(TypeError);
  // @ts-expect-error a cost stands in the options
  expect(() => limiter.consume({ ip }, 5)).toThrow(TypeError);
  // @ts-expect-error charge takes the cost itself
  expect(() => limiter.charge({ ip }, { cost: { ip: 5 } })).toThrow(TypeError);
  // @ts-expect-error settle takes whole numbers
  expect(() => limiter.consume({ ip }).settle('5')).toThrow(TypeError);
});
