import { isPromise, type MaybePromise } from '../maybe-promise.ts';
import { TollgateConfigError } from '../errors.ts';
import type { Limit, LimitOptions } from '../limits.ts';
import type { Policy, PolicyInput } from '../policy.ts';
import { addressList } from './address-list.ts';
import { clientIp } from './client-ip.ts';
import {
  checkGateLimit,
  type CountOnly,
  type GateLimitOptions,
  type Stage,
} from './gate-options.ts';
import {
  all,
  apiKey,
  bearerToken,
  custom,
  everyone,
  firstOf,
  route,
  secret,
  tenant,
} from './keys.ts';
import { TollgateFunctionError } from './refusal.ts';
import type { HttpRequest, KeyFunction } from './request.ts';

/** A limit made ready for requests. */
export interface GateLimit<R> {
  readonly limit: Limit;
  /** The fixed policy; undefined where the request brings one. */
  readonly policy: Policy | undefined;
  readonly by: KeyFunction<R>;
  readonly policyOf: ((request: R) => MaybePromise<PolicyInput>) | undefined;
  readonly costOf: ((request: R) => MaybePromise<number>) | undefined;
  readonly skip: ((request: R) => MaybePromise<boolean>) | undefined;
  readonly allows: ((address: string | undefined) => boolean) | undefined;
  readonly denies: ((address: string | undefined) => boolean) | undefined;
  readonly counts: ((status: number) => boolean) | undefined;
  readonly stage: Stage;
}

/** What makes key functions, and is easily given without its parentheses. */
const FACTORIES = [
  clientIp,
  apiKey,
  bearerToken,
  tenant,
  everyone,
  route,
  all,
  firstOf,
  custom,
  secret,
];

const isFailure = (status: number): boolean => status >= 400;
const isSuccess = (status: number): boolean => status < 400;

function countsOf(countOnly: CountOnly | undefined): ((status: number) => boolean) | undefined {
  if (countOnly === 'failures') return isFailure;
  if (countOnly === 'successes') return isSuccess;
  return countOnly;
}

/**
 * Validates a gate's limit and makes it ready; `add` enters its rule into the limiter.
 *
 * @throws TollgateConfigError with the path of the option at fault and the mend.
 */
export function gateLimit<R extends HttpRequest>(
  options: GateLimitOptions<R>,
  add: (limit: LimitOptions, path: string) => Limit,
  path: string,
): GateLimit<R> {
  checkGateLimit(options, path);
  const factory = FACTORIES.find((each: unknown) => each === options.by);
  if (factory !== undefined) {
    throw new TollgateConfigError(
      `${path}.by`,
      `${factory.name} makes a key function and is none; call it: ${factory.name}(…)`,
    );
  }
  const { by, policy, cost, countOnly, stage, skip, allowList, denyList, ...rest } = options;
  const limit = add(
    {
      ...rest,
      ...(typeof policy === 'function' ? undefined : { policy }),
      ...(typeof cost === 'number' ? { cost } : undefined),
    },
    path,
  );
  if (countOnly !== undefined && limit.rules?.rule.holdsSlots === true) {
    throw new TollgateConfigError(
      `${path}.countOnly`,
      'a concurrency limit counts requests in flight, whatever their outcome; leave countOnly out',
    );
  }
  return {
    limit,
    policy: limit.rules?.policy,
    by: by ?? clientIp(),
    policyOf: typeof policy === 'function' ? policy : undefined,
    costOf: typeof cost === 'function' ? cost : undefined,
    skip,
    allows: allowList && addressList(allowList, `${path}.allowList`),
    // A shadow limit never refuses, by its list neither.
    denies: denyList && !limit.shadow ? addressList(denyList, `${path}.denyList`) : undefined,
    counts: countsOf(countOnly),
    stage: stage ?? 'onRequest',
  };
}

/** Calls a function of the options: what it throws is told as its fault, and a promise is given limited time. */
export function callOption<R, T>(
  call: (request: R) => MaybePromise<T>,
  request: R,
  option: string,
  timeoutMs: number,
): MaybePromise<T> {
  let value: MaybePromise<T>;
  try {
    value = call(request);
  } catch (error) {
    throw faultOf(option, error);
  }
  if (!isPromise(value)) return value;
  const timed = inTime(value, option, timeoutMs);
  // Another function may fail at once, and then nobody waits for this one.
  timed.catch(() => undefined);
  return timed;
}

async function inTime<T>(promise: Promise<T>, option: string, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new TollgateFunctionError(option, `took longer than ${timeoutMs} ms`)),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } catch (error) {
    throw error instanceof TollgateFunctionError ? error : faultOf(option, error);
  } finally {
    clearTimeout(timer);
  }
}

function faultOf(option: string, error: unknown): Error {
  return error instanceof TollgateConfigError
    ? error
    : new TollgateFunctionError(option, 'failed', error);
}
