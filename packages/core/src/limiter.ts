import { Audit } from './audit.ts';
import { Decision } from './decision.ts';
import type { BookedCharge, Ledger } from './booking.ts';
import {
  show,
  TollgateArgumentError,
  TollgateClosedError,
  TollgateConfigError,
  TollgateStoreError,
} from './errors.ts';
import { decisions, storeErrors } from './events.ts';
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
import { allDone, andThen, isPromise, type MaybePromise } from './maybe-promise.ts';
import type { PolicyInput } from './policy.ts';
import { Refusals } from './refusals/refusals.ts';
import type { MostRefused, MostRefusedOptions } from './refusals/refused-key.ts';
import { tellOfProcesses } from './processes.ts';
import { Tenant } from './registry.ts';
import { HeldSlots } from './slots.ts';
import type { Answer, Health, Mode, Store } from './store.ts';
import { type MemoryStore, memoryStore } from './stores/memory.ts';
import { type Line, TollgateWaitError, WaitingLines } from './waiting.ts';

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
  /** Told once of every store error that a call did not reject with. Must not throw. */
  readonly onStoreError?: (error: unknown) => void;
  /** How keys stand in the events of resets and bans, and in lists of the most refused keys; default `"clear"`. */
  readonly logKeys?: 'clear' | 'hash' | false;
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

const LONGEST_BAN_US = 400 * 86_400_000_000;
const NO_BANS = 'The store knows no bans: it has no ban() and unban().';
const OPTIONS = [
  'store',
  'limits',
  'priorities',
  'logger',
  'onDecision',
  'onStoreError',
  'logKeys',
] as const;

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
  private readonly audit: Audit;
  private readonly refusals: Refusals;
  /** What answers in place of a store that may fail. */
  private readonly fallback: Fallback | undefined;
  /** Of what was charged while the store was out. Made when that first happens. */
  private ledgerWithout: Ledger | undefined;
  /** Whether the store failed when it was last asked. */
  private isOut = false;
  /** Errors that many calls fail with, such as those of one batch, and that are reported once. */
  private readonly reported = new WeakSet<TollgateStoreError>();
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
    this.limits = new Limits(priorities, this.ledgerIn(this.store));
    if (this.store.async) this.fallback = Fallback.of(this.store);
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
    this.audit = new Audit(this, options.logKeys ?? 'clear');
    this.refusals = new Refusals(this.store, options.logKeys ?? 'clear', (error) =>
      this.report(error),
    );
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
        shared: this.store.async,
        attempt: () => this.decide(charges(), 'attempt', false),
        peek: () => this.decide(charges(), 'peek', false),
        charge: () => this.decide(charges(), 'charge', false),
        peekDebt: () => this.decide(unpaid(charges()), 'peek', false),
        cancel: (decision) => (decision.allowed ? decision.cancel() : undefined),
      })
      .then(
        (decision) => {
          const served = decision.delayMs === 0 ? decision : decision.served();
          this.notify(served);
          return served;
        },
        (error: unknown) => {
          if (error instanceof TollgateWaitError && error.decision !== undefined) {
            this.publish(error.decision);
          }
          throw error;
        },
      );
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
   * @throws TollgateArgumentError for a concurrency limit, whose slots are released; TollgateStoreError, as a rejection,
   * when the store cannot be asked: the units are then taken off what this process counts while the store is out.
   */
  refund(keys: Keys, cost?: Cost): Reply<S, void> {
    const charges = this.countedCharges(keys, cost, 'refund');
    if (this.closed) return this.refuseClosed();
    this.fallback?.givenBack(charges);
    const done = this.store.refund(charges);
    const orLocally = (error: unknown): never => {
      this.fallback?.refund(charges);
      throw error;
    };
    return this.thenNudge(isPromise(done) ? done.catch(orLocally) : done, charges);
  }

  /**
   * Forgets these keys, their bans, and what this process counted for them while the store was out.
   *
   * @throws TollgateStoreError, as a rejection, when the store cannot be asked; this process has forgotten them then.
   */
  reset(keys: Keys): Reply<S, void> {
    const forgotten = this.limits.keysOf(keys);
    if (this.closed) return this.refuseClosed();
    this.fallback?.reset(forgotten);
    const done = this.audit.reset(this.store.reset(forgotten), forgotten);
    return this.thenNudge(done, forgotten);
  }

  /**
   * Refuses these keys for `forMs` milliseconds from now on, in place of any ban before.
   *
   * @throws TollgateArgumentError for a time that is not above 0 and at most 400 days.
   */
  ban(keys: Keys, forMs: number): Reply<S, void> {
    const banned = this.limits.keysOf(keys);
    const length = Math.round(forMs * 1_000);
    if (!(length >= 1 && length <= LONGEST_BAN_US)) {
      throw new TollgateArgumentError(
        `A ban lasts more than 0 ms and at most 400 days, got ${show(forMs)}.`,
      );
    }
    if (this.closed) return this.refuseClosed();
    const { store } = this;
    if (store.ban === undefined) throw new TollgateArgumentError(NO_BANS);
    this.fallback?.ban(banned, length);
    return this.audit.ban(store.ban(banned, length), banned, forMs) as Reply<S, void>;
  }

  /** Ends the bans of these keys, and forgets the refusals counted towards the next one. */
  unban(keys: Keys): Reply<S, void> {
    const freed = this.limits.keysOf(keys);
    if (this.closed) return this.refuseClosed();
    const { store } = this;
    if (store.unban === undefined) throw new TollgateArgumentError(NO_BANS);
    this.fallback?.unban(freed);
    return this.thenNudge(this.audit.unban(store.unban(freed), freed), freed);
  }

  /**
   * Replaces a limit's fixed policy; what keys owe stays owed, and the next request is judged by the new policy.
   *
   * @throws TollgateConfigError for a wrong policy.
   */
  update(name: string, policy: PolicyInput): void {
    if (this.closed) throw new TollgateClosedError();
    const before = this.limits.get(name).rules?.policy;
    const replaced = this.limits.update(name, policy);
    this.tenant.replace(name, replaced);
    this.fallback?.replace(name);
    this.waiting.nudgeAll();
    this.audit.update(name, replaced, before);
  }

  /**
   * The keys refused most in the last day, by a limit or by all: by this process, or by all processes that share the
   * store's Redis. At most `count` of each limit, the most refused first. What `consume` and gates refuse is counted, and
   * what a limit in shadow mode would have; not that the store was out.
   *
   * @returns at once what this process counted; with `fleet` a promise, which rejects with TollgateStoreError when the
   * store cannot be asked.
   * @throws TollgateArgumentError for an unknown limit, a wrong option, and with `fleet` for a store that keeps no list.
   */
  mostRefused<Fleet extends boolean = false>(
    name?: string,
    options: MostRefusedOptions<Fleet> = {},
  ): MostRefused<Fleet> {
    const names = name === undefined ? this.limits.names : [this.limits.get(name).name];
    return this.refusals.most(names, options) as MostRefused<Fleet>;
  }

  /** A key as events and lists show it, which `logKeys` says; undefined where they show none. */
  shownKey(key: string): string | undefined {
    return this.audit.shown(key);
  }

  /** How the store is. */
  health(): Health {
    return this.store.health?.() ?? { store: 'up', since: this.madeAt, lastError: undefined };
  }

  /** Whether it was closed. */
  get isClosed(): boolean {
    return this.closed;
  }

  /** Ends those who wait, frees the slots held, and closes the store with its last limiter. May be called again. */
  close(): Reply<S, void> {
    if (!this.closed) {
      this.closed = true;
      this.waiting.close(new TollgateClosedError());
      const done = allDone([
        this.free(this.slots.all()),
        this.refusals.close(),
        this.returnLeases(),
      ]);
      this.closing = andThen(done, () =>
        this.tenant.leave() ? this.quietly(() => this.store.close(), []) : undefined,
      );
    }
    return this.closing as Reply<S, void>;
  }

  private returnLeases(): MaybePromise<void> {
    const leased = this.limits.all.flatMap(({ lease }) => lease ?? []);
    if (leased.length === 0) return undefined;
    return this.quietly(() => this.store.returnLeases?.(leased), []);
  }

  /** Decides charges that are made already. */
  decide(charges: readonly BookedCharge[], mode: Mode, notify: boolean): Reply<S, Decision> {
    if (this.closed) return this.refuseClosed();
    const { fallback } = this;
    const decision =
      fallback === undefined
        ? this.decided(this.store.decide(charges, mode) as Answer, charges, notify)
        : this.decidedBeyond(charges, mode, notify, fallback);
    return decision as Reply<S, Decision>;
  }

  /** Decides by a store beyond this process, from units of it that are held here where those suffice. */
  private decidedBeyond(
    charges: readonly BookedCharge[],
    mode: Mode,
    notify: boolean,
    fallback: Fallback,
  ): Promise<Decision> {
    const known = this.limits.leased ? this.store.decideAtOnce?.(charges, mode) : undefined;
    if (known !== undefined) return Promise.resolve(this.decided(known, charges, notify));
    return this.decidedLater(this.ask(charges, mode), charges, mode, notify, fallback);
  }

  /** Asks a store that may fail. What it throws at once is a failure like any other, but for misuse. */
  private ask(charges: readonly BookedCharge[], mode: Mode): Promise<Answer> {
    try {
      return this.store.decide(charges, mode) as Promise<Answer>;
    } catch (error) {
      if (isMisuse(error)) throw error;
      return Promise.reject(error);
    }
  }

  /** Waits for the store's answer; where there is none, each limit says what to do without. */
  private async decidedLater(
    answer: Promise<Answer>,
    charges: readonly BookedCharge[],
    mode: Mode,
    notify: boolean,
    fallback: Fallback,
  ): Promise<Decision> {
    let known: Answer;
    try {
      known = await answer;
    } catch (error) {
      if (isMisuse(error)) throw error;
      const failure = asStoreError(error);
      this.isOut = true;
      this.report(failure);
      const ledger = (this.ledgerWithout ??= this.ledgerIn(fallback.local));
      const without = fallback.decide(charges, mode, failure, ledger);
      return this.decided(without.answer, without.charges, notify);
    }
    if (known.failure !== undefined) this.report(known.failure);
    fallback.remember(known, charges);
    const decision = this.decided(known, charges, notify);
    // Those who wait were told when this process would admit them.
    if (this.isOut) this.waiting.nudgeAll();
    this.isOut = false;
    return decision;
  }

  private decided(answer: Answer, charges: readonly BookedCharge[], notify: boolean): Decision {
    const decision = new Decision(answer, charges);
    if (this.limits.holdSlots) this.slots.add(decision.slots());
    if (notify) this.notify(decision);
    return decision;
  }

  /** Tells `onDecision`, whose failing is not the request's, and whoever listens to events. */
  notify(decision: Decision): void {
    if (this.onDecision !== undefined) this.tell(this.onDecision, decision, 'onDecision');
    this.publish(decision);
  }

  private publish(decision: Decision): void {
    if (!decision.allowed || this.limits.hasShadows) this.refusals.add(decision);
    if (decisions.hasSubscribers) decisions.publish({ decision, limiter: this });
  }

  private tell<T>(observer: (told: T) => void, told: T, name: string): void {
    const report = (error: unknown): void => this.logger.error({ err: error }, `${name} failed`);
    try {
      const done: unknown = observer(told);
      if (isPromise(done)) done.catch(report);
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

  /** A ledger of what is booked in `place`: the store, or what stands in for it. */
  private ledgerIn(place: Store): Ledger {
    return {
      store: this.store,
      correct: (corrections) => {
        const charges = corrections.map(({ charge }) => charge);
        if (place === this.store) this.fallback?.givenBack(charges);
        return this.quietly(() => place.correct(corrections), charges);
      },
      release: (held) => this.free(held),
    };
  }

  /** Where these were booked, and which of them there. */
  private places(held: readonly BookedCharge[]): [Store, readonly BookedCharge[]][] {
    const { fallback, store } = this;
    const isWithout = ({ ledger }: BookedCharge): boolean => ledger === this.ledgerWithout;
    const without = held.filter(isWithout);
    if (fallback === undefined || without.length === 0) return [[store, held]];
    const within = held.filter((charge) => !isWithout(charge));
    const places: [Store, readonly BookedCharge[]][] = [[fallback.local, without]];
    if (within.length > 0) places.push([store, within]);
    return places;
  }

  private free(held: readonly BookedCharge[]): MaybePromise<void> {
    this.slots.delete(held);
    if (held.length === 0) return undefined;
    return allDone(
      this.places(held).map(([place, own]) =>
        this.quietly(() => place.correct(own.map((charge) => ({ charge, units: -1 }))), own),
      ),
    );
  }

  private renew(held: readonly BookedCharge[]): void {
    for (const [place, own] of this.places(held)) {
      void andThen(
        this.quietly(() => place.renew(own) as MaybePromise<boolean[]>, []),
        (kept) => this.slots.delete(own.filter((_, index) => kept?.[index] === false)),
      );
    }
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
    if (error instanceof TollgateStoreError) {
      if (this.reported.has(error)) return undefined;
      this.reported.add(error);
    }
    if (storeErrors.hasSubscribers) storeErrors.publish({ error, limiter: this });
    if (this.onStoreError === undefined) this.logger.error({ err: error }, 'the store failed');
    else this.tell(this.onStoreError, error, 'onStoreError');
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

/** The same charges of nothing, which are admitted unless their keys are overdrawn. */
function unpaid(charges: readonly BookedCharge[]): BookedCharge[] {
  return charges.map((charge) => charge.of(0));
}

/** Whether an error says that the store was called wrongly, and not that it failed. */
function isMisuse(error: unknown): boolean {
  return error instanceof TollgateArgumentError || error instanceof TollgateConfigError;
}

function asStoreError(error: unknown): TollgateStoreError {
  if (error instanceof TollgateStoreError) return error;
  const problem = error instanceof Error ? error.message : show(error);
  return new TollgateStoreError(`the store failed: ${problem}`, 0, error);
}

function checkObservers(options: LimiterOptions): void {
  for (const option of ['onDecision', 'onStoreError'] as const) {
    const value: unknown = options[option];
    if (value === undefined || typeof value === 'function') continue;
    throw new TollgateConfigError(option, `expected a function, got ${show(value)}`);
  }
  const { logger = consoleLogger, logKeys } = options;
  if (logKeys !== undefined && logKeys !== 'clear' && logKeys !== 'hash' && logKeys !== false) {
    throw new TollgateConfigError(
      'logKeys',
      `expected "clear", "hash" or false, got ${show(logKeys)}`,
    );
  }
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
  const limiter = new Limiter(options);
  tellOfProcesses(limiter.store, options.logger ?? consoleLogger);
  return limiter;
}
