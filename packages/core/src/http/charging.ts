import { type BookedCharge, checkCost } from '../booking.ts';
import { show, TollgateArgumentError, TollgateConfigError } from '../errors.ts';
import { allOf, andThen, isPromise, type MaybePromise } from '../maybe-promise.ts';
import type { CallOptions, Cost, Limits } from '../limits.ts';
import type { PolicyInput } from '../policy.ts';
import type { Diagnostics } from './diagnostics.ts';
import { callOption, type GateLimit } from './gate-limit.ts';
import { addressOf, type HttpRequest } from './request.ts';

/** What a limit asks of a request: a charge, nothing, or that it is refused before any store is asked. */
export type Asked = BookedCharge | 'denied' | 'skipped' | undefined;

/** What is known of a request before its limits are asked. */
export interface Call {
  readonly priority: string | undefined;
  /** The cost that the route gives. */
  readonly cost: Cost | undefined;
}

/**
 * Makes the charges of a request: calls the functions of the options, and stays synchronous as long as they do.
 */
export class Charging<R extends HttpRequest> {
  private readonly limits: Limits;
  private readonly diagnostics: Diagnostics<R>;
  private readonly timeoutMs: number;

  constructor(limits: Limits, diagnostics: Diagnostics<R>, timeoutMs: number) {
    this.limits = limits;
    this.diagnostics = diagnostics;
    this.timeoutMs = timeoutMs;
  }

  /** What each limit asks, in their order. */
  ask(limits: readonly GateLimit<R>[], request: R, call: Call): MaybePromise<readonly Asked[]> {
    const asked: MaybePromise<Asked>[] = [];
    for (const limit of limits) asked.push(this.askOne(limit, request, call));
    return allOf(asked);
  }

  /** Calls a function of the options that belongs to no limit. */
  call<T>(fn: (request: R) => MaybePromise<T>, request: R, option: string): MaybePromise<T> {
    try {
      const value = callOption(fn, request, option, this.timeoutMs);
      return isPromise(value) ? this.reported(value, option) : value;
    } catch (error) {
      throw this.diagnostics.fault(error, option);
    }
  }

  /** The cost that a function of a route gives. */
  routeCost(cost: (request: R) => MaybePromise<Cost>, request: R): MaybePromise<Cost> {
    const checked = (each: R): MaybePromise<Cost> =>
      andThen(cost(each), (units) => this.checkedCost(units));
    return this.call(checked, request, 'the cost of the route');
  }

  /**
   * Tries a route's fixed cost on its limits.
   *
   * @throws TollgateConfigError for what is no cost, or can never be admitted.
   */
  checkFixedCost(cost: Cost, limits: readonly GateLimit<R>[], path: string): void {
    try {
      this.checkedCost(cost, limits);
      for (const { limit, policy, costOf } of limits) {
        if (policy === undefined || (costOf !== undefined && typeof cost === 'number')) continue;
        const { rule, cost: units } = this.limits.charge(limit, 'any', { cost });
        if (rule.quota === 0 || units <= rule.quota) continue;
        throw new TollgateArgumentError(
          `a cost of ${units} can never be admitted by ${limit.name}, whose quota is ${rule.quota}; lower the cost or raise the quota`,
        );
      }
    } catch (error) {
      throw error instanceof TollgateArgumentError
        ? new TollgateConfigError(path, error.message)
        : error;
    }
  }

  /** Whether an outcome counts for a limit. It does where the application's function fails to say. */
  counted({ name }: BookedCharge, counts: (status: number) => boolean, status: number): boolean {
    try {
      const counted: unknown = counts(status);
      if (typeof counted === 'boolean') return counted;
      throw new TollgateArgumentError(
        `The countOnly of ${name} must return true or false; got ${show(counted)}.`,
      );
    } catch (error) {
      this.diagnostics.fault(error, name);
      return true;
    }
  }

  private checkedCost(cost: unknown, limits?: readonly GateLimit<R>[]): Cost {
    if (typeof cost !== 'object' || cost === null) return checkCost(cost, 'the route');
    for (const [name, units] of Object.entries(cost)) {
      const known = limits === undefined || limits.some(({ limit }) => limit.name === name);
      if (!known) throw new TollgateArgumentError(`the route has no limit "${name}"`);
      checkCost(units, this.limits.get(name).name);
    }
    return cost as Cost;
  }

  private askOne(limit: GateLimit<R>, request: R, call: Call): MaybePromise<Asked> {
    try {
      if (limit.denies?.(addressOf(request)) === true) return 'denied';
      if (limit.allows?.(addressOf(request)) === true) return 'skipped';
      const asked =
        limit.skip === undefined
          ? this.charge(limit, request, call)
          : this.unlessSkipped(limit, limit.skip, request, call);
      return isPromise(asked) ? this.askedLater(asked, limit) : asked;
    } catch (error) {
      return this.notAsked(limit, error);
    }
  }

  private askedLater(asked: Promise<Asked>, limit: GateLimit<R>): Promise<Asked> {
    const known = asked.catch((error: unknown) => this.notAsked(limit, error));
    // Another function may fail at once, and then nobody waits for this one.
    known.catch(() => undefined);
    return known;
  }

  /** What a limit says that does not know what to ask: a shadow refuses nobody, not even so. */
  private notAsked({ limit: { name, shadow } }: GateLimit<R>, error: unknown): 'skipped' {
    const fault = this.diagnostics.fault(error, name);
    if (shadow) return 'skipped';
    throw fault;
  }

  private unlessSkipped(
    limit: GateLimit<R>,
    skip: (request: R) => MaybePromise<boolean>,
    request: R,
    call: Call,
  ): MaybePromise<Asked> {
    const skipped = this.option(skip, request, `the skip of ${limit.limit.name}`);
    if (isPromise(skipped)) {
      return skipped.then((yes) => (yes ? 'skipped' : this.charge(limit, request, call)));
    }
    return skipped ? 'skipped' : this.charge(limit, request, call);
  }

  private charge(limit: GateLimit<R>, request: R, call: Call): MaybePromise<Asked> {
    const { name } = limit.limit;
    const key = this.option(limit.by, request, `the by of ${name}`);
    if (limit.policyOf === undefined && limit.costOf === undefined && !isPromise(key)) {
      return key === undefined ? undefined : this.limits.charge(limit.limit, key, optionsOf(call));
    }
    const policy = limit.policyOf && this.option(limit.policyOf, request, `the policy of ${name}`);
    // A cost that the route names for this limit goes before the limit's own.
    const routed = typeof call.cost === 'object' && Object.hasOwn(call.cost, name);
    const cost =
      limit.costOf === undefined || routed
        ? undefined
        : this.option(limit.costOf, request, `the cost of ${name}`);
    if (!isPromise(key) && !isPromise(policy) && !isPromise(cost)) {
      return this.book(limit, key, call, policy, cost);
    }
    return Promise.all([key, policy, cost]).then(([ownKey, ownPolicy, ownCost]) =>
      this.book(limit, ownKey, call, ownPolicy, ownCost),
    );
  }

  private book(
    { limit, policyOf, costOf }: GateLimit<R>,
    key: string | undefined,
    call: Call,
    policy: PolicyInput | undefined,
    cost: number | undefined,
  ): Asked {
    if (key === undefined) return undefined;
    const { name } = limit;
    const routed = typeof call.cost === 'object' && Object.hasOwn(call.cost, name);
    return this.limits.charge(limit, key, {
      ...optionsOf(call),
      // A function that returned nothing is told so, and not taken for one that is not there.
      ...(costOf !== undefined && !routed && { cost: { [name]: checkCost(cost, name) } }),
      ...(policyOf !== undefined && { policies: { [name]: policy as PolicyInput } }),
    });
  }

  private option<T>(
    fn: (request: R) => MaybePromise<T>,
    request: R,
    option: string,
  ): MaybePromise<T> {
    return callOption(fn, request, option, this.timeoutMs);
  }

  private reported<T>(promise: Promise<T>, name: string): Promise<T> {
    const reported = promise.catch((error: unknown) => {
      throw this.diagnostics.fault(error, name);
    });
    // Another function may fail at once, and then nobody waits for this one.
    reported.catch(() => undefined);
    return reported;
  }
}

function optionsOf({ priority, cost }: Call): CallOptions | undefined {
  if (priority === undefined && cost === undefined) return undefined;
  return { ...(priority !== undefined && { priority }), ...(cost !== undefined && { cost }) };
}
