import { type BookedCharge, Decision, type Ledger } from './decision.ts';
import {
  show,
  TollgateArgumentError,
  TollgateClosedError,
  TollgateConfigError,
  TollgateStoreError,
} from './errors.ts';
import { Fallback } from './fallback.ts';
import {
  type CallOptions,
  type Cost,
  DEFAULT_PRIORITIES,
  type Keys,
  type Limit,
  type LimitOptions,
  Limits,
  refuseUnknown,
} from './limits.ts';
import { consoleLogger, type Logger } from './logger.ts';
import { andThen, isPromise, type MaybePromise } from './maybe-promise.ts';
import type { PolicyInput } from './policy.ts';
import { Tenant } from './registry.ts';
import { HeldSlots } from './slots.ts';
import type { Answer, Charge, Health, Mode, Store } from './store.ts';
import { type MemoryStore, memoryStore } from './stores/memory.ts';
import { type Line, WaitingLines } from './waiting.ts';

export interface LimiterOptions<S extends Store = Store> {
  /** Default `memoryStore()`. */
  readonly store?: S;
  readonly limits: readonly LimitOptions[];
  /** Highest first; default critical, normal, sheddable. */
  readonly priorities?: readonly string[];
  /** Default the console. */
  readonly logger?: Logger;
  /** Told of every decision of `consume`. Must not throw. */
  readonly onDecision?: (decision: Decision) => void;
  /** Told of every store error that a call did not reject with. Must not throw. */
  readonly onStoreError?: (error: unknown) => void;
}

export interface WaitOptions extends CallOptions {
  /** How long to wait at most, in milliseconds; default without bound. */
  readonly maxWaitMs?: number;
  readonly signal?: AbortSignal;
}

/** What a call answers on a store: the value itself on a synchronous one, a promise on the others. */
export type Reply<S extends Store, T> = S extends { readonly async: false }
  ? T
  : S extends { readonly async: true }
    ? Promise<T>
    : MaybePromise<T>;

const OPTIONS = ['store', 'limits', 'priorities', 'logger', 'onDecision', 'onStoreError'] as const;

/**
 * Limits bound to a store, without HTTP. All limits of a call are decided as one: either all admit and all are
 * charged, or nothing is.
 */
export class Limiter<S extends Store = Store> {
  readonly store: S;
  /** For gates, which make their charges themselves. */
  readonly limits: Limits;
  private readonly logger: Logger;
  private readonly onDecision: LimiterOptions['onDecision'];
  private readonly onStoreError: LimiterOptions['onStoreError'];
  private readonly tenant: Tenant;
  private readonly slots: HeldSlots;
  private readonly waiting = new WaitingLines();
  /** Made when a store that may fail first answers. */
  private fallback: Fallback | undefined;
  private closing: MaybePromise<void> | undefined;
  private readonly madeAt = Date.now();
  private closed = false;

  constructor(options: LimiterOptions<S>) {
    if (typeof options !== 'object' || options === null) {
      throw new TollgateConfigError('', `expected the limiter's options, got ${show(options)}`);
    }
    refuseUnknown(options, OPTIONS, '');
    const { limits, priorities = DEFAULT_PRIORITIES, logger = consoleLogger } = options;
    // Without a store S is MemoryStore, which the type of createLimiter() says.
    this.store = options.store === undefined ? (memoryStore() as unknown as S) : options.store;
    if (typeof (this.store as Partial<Store> | null)?.decide !== 'function') {
      throw new TollgateConfigError(
        'store',
        `expected a store, such as memoryStore(), got ${show(this.store)}`,
      );
    }
    checkObservers(options);
    const ledger: Ledger = {
      store: this.store,
      correct: (corrections) => {
        const charges = corrections.map(({ charge }) => charge);
        return this.quietly(() => this.store.correct(corrections), charges);
      },
      release: (held) => this.free(held),
    };
    this.limits = new Limits(priorities, ledger);
    if (!Array.isArray(limits)) {
      throw new TollgateConfigError('limits', `expected an array of limits, got ${show(limits)}`);
    }
    this.tenant = new Tenant(this.store);
    try {
      for (const [index, limit] of limits.entries()) this.add(limit, `limits[${index}]`);
    } catch (error) {
      this.tenant.leave();
      throw error;
    }
    this.logger = logger;
    this.onDecision = options.onDecision;
    this.onStoreError = options.onStoreError;
    this.slots = new HeldSlots((held) => this.renew(held));
  }

  /** Adds a limit, as a gate does for those of a route. */
  add(options: LimitOptions, path: string): Limit {
    const limit = this.limits.add(options, path);
    if (limit.rules !== undefined)
      this.tenant.add(limit.name, limit.rules.policy, `${path}.policy`);
    return limit;
  }

  /**
   * Decides a request and charges it when all limits admit.
   *
   * @throws TollgateArgumentError for an unknown limit, a key that is not a non-empty string, a wrong cost or priority.
   */
  consume(keys: Keys, options?: CallOptions): Reply<S, Decision> {
    return this.decide(this.limits.charges(keys, options), 'consume', true);
  }

  /** The answer `consume` would give, with nothing charged. */
  peek(keys: Keys, options?: CallOptions): Reply<S, Decision> {
    return this.decide(this.limits.charges(keys, options), 'peek', false);
  }

  /**
   * Waits until the request is admitted; a leaky bucket's delay is then over. In order of arrival for each key.
   *
   * @returns a promise that rejects with TollgateWaitError when it cannot be in time, with the signal's reason when
   * aborted, and with TollgateClosedError when the limiter closes.
   */
  wait(keys: Keys, options: WaitOptions = {}): Promise<Decision> {
    const { maxWaitMs = Infinity, signal, ...call } = options;
    if (typeof maxWaitMs !== 'number' || !(maxWaitMs >= 0)) {
      throw new TollgateArgumentError(`maxWaitMs must be 0 or more, got ${show(maxWaitMs)}.`);
    }
    const lines = this.limits.charges(keys, call);
    // Made anew each time, since a policy may be replaced meanwhile.
    const kept = { ...keys };
    const charges = (): BookedCharge[] => this.limits.charges(kept, call);
    if (this.closed) return Promise.reject(new TollgateClosedError());
    return this.waiting
      .join({
        lines,
        maxWaitMs,
        signal,
        attempt: () => this.decide(charges(), 'consume', false),
        peek: () => this.decide(charges(), 'peek', false),
        cancel: (decision) => (decision.allowed ? decision.cancel() : undefined),
      })
      .then((decision) => {
        const served = decision.delayMs === 0 ? decision : decision.served();
        this.notify(served);
        return served;
      });
  }

  /**
   * Charges without asking: may overdraw the keys. A sliding log refuses a charge beyond its limit.
   *
   * @throws TollgateArgumentError for a concurrency limit, which has nothing to charge.
   */
  charge(keys: Keys, cost?: Cost): Reply<S, Decision> {
    return this.decide(this.countedCharges(keys, cost, 'charge'), 'charge', false);
  }

  /**
   * Takes units off what the keys owe, never below nothing, and creates no key.
   *
   * @throws TollgateArgumentError for a concurrency limit, whose slots are released.
   */
  refund(keys: Keys, cost?: Cost): Reply<S, void> {
    const charges = this.countedCharges(keys, cost, 'refund');
    if (this.closed) return this.refuseClosed();
    return this.thenNudge(this.store.refund(charges), charges);
  }

  /** Forgets these keys. */
  reset(keys: Keys): Reply<S, void> {
    const forgotten = this.limits.keysOf(keys);
    if (this.closed) return this.refuseClosed();
    return this.thenNudge(this.store.reset(forgotten), forgotten);
  }

  /**
   * Replaces a limit's fixed policy; what keys owe stays owed, and the next request is judged by the new policy.
   *
   * @throws TollgateConfigError for a wrong policy.
   */
  update(name: string, policy: PolicyInput): void {
    if (this.closed) throw new TollgateClosedError();
    this.tenant.replace(name, this.limits.update(name, policy));
    this.waiting.nudgeAll();
  }

  /** How the store is. */
  health(): Health {
    return this.store.health?.() ?? { store: 'up', since: this.madeAt, lastError: undefined };
  }

  /** Ends those who wait, frees the slots held, and closes the store with its last limiter. May be called again. */
  close(): Reply<S, void> {
    if (!this.closed) {
      this.closed = true;
      this.waiting.close(new TollgateClosedError());
      this.closing = andThen(this.free(this.slots.all()), () =>
        this.tenant.leave() ? this.quietly(() => this.store.close(), []) : undefined,
      );
    }
    return this.closing as Reply<S, void>;
  }

  /** Decides charges that are made already. */
  decide(charges: readonly BookedCharge[], mode: Mode, notify: boolean): Reply<S, Decision> {
    if (this.closed) return this.refuseClosed();
    const answer = this.store.decide(charges, mode) as MaybePromise<Answer>;
    const decision = this.store.async
      ? this.decidedLater(answer as Promise<Answer>, charges, mode, notify)
      : this.decided(answer as Answer, charges, notify);
    return decision as Reply<S, Decision>;
  }

  /** Waits for the store's answer; where there is none, each limit says what to do without. */
  private async decidedLater(
    answer: Promise<Answer>,
    charges: readonly BookedCharge[],
    mode: Mode,
    notify: boolean,
  ): Promise<Decision> {
    const without = (this.fallback ??= new Fallback());
    let known: Answer;
    try {
      known = await answer;
    } catch (error) {
      if (!(error instanceof TollgateStoreError)) throw error;
      // Only what was tried is news: while the store is known to be down, nothing is.
      if (error.cause !== undefined) this.report(error);
      const fallback = without.decide(charges, mode, error);
      return this.decided(fallback.answer, fallback.charges, notify);
    }
    without.remember(known.verdicts);
    return this.decided(known, charges, notify);
  }

  private decided(answer: Answer, charges: readonly BookedCharge[], notify: boolean): Decision {
    const decision = new Decision(answer, charges);
    if (this.limits.holdSlots) this.slots.add(decision.slots());
    if (notify) this.notify(decision);
    return decision;
  }

  /** Tells `onDecision`, whose failing is not the request's. */
  notify(decision: Decision): void {
    if (this.onDecision === undefined) return;
    const report = (error: unknown): void => this.logger.error({ err: error }, 'onDecision failed');
    try {
      const told: unknown = this.onDecision(decision);
      if (isPromise(told)) told.catch(report);
    } catch (error) {
      report(error);
    }
  }

  private countedCharges(keys: Keys, cost: Cost | undefined, call: string): BookedCharge[] {
    const charges = this.limits.charges(keys, cost === undefined ? undefined : { cost });
    const slots = charges.find(({ rule }) => rule.holdsSlots);
    if (slots === undefined) return charges;
    throw new TollgateArgumentError(
      `${call}: ${slots.name} is a concurrency limit, which counts requests in flight; leave its key out.`,
    );
  }

  private free(held: readonly Charge[]): MaybePromise<void> {
    this.slots.delete(held);
    if (held.length === 0) return undefined;
    const corrections = held.map((charge) => ({ charge, units: -1 }));
    return this.quietly(() => this.store.correct(corrections), held);
  }

  private renew(held: readonly Charge[]): void {
    void andThen(
      this.quietly(() => this.store.renew(held) as MaybePromise<boolean[]>, []),
      (kept) => this.slots.delete(held.filter((_, index) => kept?.[index] === false)),
    );
  }

  /**
   * Runs a store call that nobody waits for the outcome of: an error goes to `onStoreError`. Those who wait for the
   * keys touched ask again.
   */
  private quietly<T>(
    call: () => MaybePromise<T>,
    touched: readonly Line[],
  ): MaybePromise<T | undefined> {
    const report = (error: unknown): undefined => this.report(error);
    try {
      const value = call();
      return andThen(value instanceof Promise ? value.catch(report) : value, (done) => {
        this.waiting.nudge(touched);
        return done;
      });
    } catch (error) {
      return report(error);
    }
  }

  private report(error: unknown): undefined {
    if (this.onStoreError === undefined) this.logger.error({ err: error }, 'the store failed');
    else this.onStoreError(error);
    return undefined;
  }

  private thenNudge(done: MaybePromise<void>, touched: readonly Line[]): Reply<S, void> {
    return andThen(done, () => this.waiting.nudge(touched)) as Reply<S, void>;
  }

  private refuseClosed<T>(): Reply<S, T> {
    const error = new TollgateClosedError();
    if (this.store.async) return Promise.reject(error) as Reply<S, T>;
    throw error;
  }
}

function checkObservers(options: LimiterOptions): void {
  for (const option of ['onDecision', 'onStoreError'] as const) {
    const value: unknown = options[option];
    if (value === undefined || typeof value === 'function') continue;
    throw new TollgateConfigError(option, `expected a function, got ${show(value)}`);
  }
  const { logger = consoleLogger } = options;
  const { warn, error } = (logger ?? {}) as Partial<Logger>;
  if (typeof warn === 'function' && typeof error === 'function') return;
  throw new TollgateConfigError(
    'logger',
    `expected an object with the functions warn and error, such as pino's, got ${show(logger)}`,
  );
}

/**
 * Makes a limiter. With the memory store, the default, every call but `wait` answers synchronously.
 *
 * @throws TollgateConfigError with the path of the option at fault and the mend.
 */
export function createLimiter<S extends Store = MemoryStore>(
  options: LimiterOptions<S>,
): Limiter<S> {
  if (options?.limits?.length === 0) {
    throw new TollgateConfigError('limits', 'there are none, so nothing would be limited; add one');
  }
  return new Limiter(options);
}
