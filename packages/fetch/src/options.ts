import {
  type Cost,
  type Keys,
  type Limiter,
  type Logger,
  type MaybePromise,
  TollgateConfigError,
} from '@tollgate/core';
import type { GiveUp, Retry } from './outcome.ts';
import type { Settle } from './settling.ts';

/** The share of retries to requests. */
export interface BudgetOptions {
  /** How many retries a request pays for, from 0 to 1; default 0.2. */
  readonly share?: number;
  /** How many retries an origin gets in any ten seconds beside; default 10. */
  readonly minimum?: number;
}

/** Durations are milliseconds. */
export interface RetryOptions {
  /** How many retries a call gets at most; default 3. */
  readonly retries?: number;
  /** The statuses that are retried; default 429 and 503. */
  readonly statuses?: readonly number[];
  /**
   * Further methods of which a second request does no more than the first. A request with an `Idempotency-Key` always
   * is one of them. The others are retried on 429 only: with it the server refused before it acted.
   */
  readonly methods?: readonly string[];
  /** Whether a request that got no answer is sent again, if its method allows; default false. */
  readonly networkErrors?: boolean;
  /** The bound of the first backoff, which doubles with each retry; default 500. */
  readonly baseMs?: number;
  /** The bound of all backoffs; default 30,000. */
  readonly maxBackoffMs?: number;
  /** The longest delay before a retry. Where the server asks for more, there is none; default 60,000. */
  readonly maxDelayMs?: number;
  /** How long after the first attempt the last one starts at the latest; default 120,000. */
  readonly maxTotalMs?: number;
  /** `false` lifts it. */
  readonly budget?: false | BudgetOptions;
  /** Draws the jitter: from 0 up to and without 1; default `Math.random`. */
  readonly random?: () => number;
}

/** Durations are milliseconds. Functions may be async. */
export interface FetchOptions {
  /** Whose limits each request waits for, retries included. It needs `keys`. */
  readonly limiter?: Limiter;
  /** Whose budget a request is charged to, by limit name; undefined where no limit applies. */
  readonly keys?: Keys | ((request: Request) => MaybePromise<Keys | undefined>);
  /** What a request is charged: its greatest possible cost, where it is settled later; default 1. */
  readonly cost?: Cost | ((request: Request) => MaybePromise<Cost>);
  /** Says what an answered request cost after all. The reservation stays where it says nothing. */
  readonly settle?: Settle;
  /** How long an attempt waits for its place at most; default 60,000. */
  readonly maxWaitMs?: number;
  /** Whether to hold requests while the server's own limits leave nothing; default false. */
  readonly pace?: boolean;
  readonly retry?: false | RetryOptions;
  /** What sends the requests; default the platform's `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** Told before the wait for each retry. */
  readonly onRetry?: (retry: Retry) => void;
  /** Told when a refusal or a failure is handed to the caller though retries are on. */
  readonly onGiveUp?: (giveUp: GiveUp) => void;
  /** Told of what failed beside the requests; default the console. */
  readonly logger?: Logger;
}

const OPTIONS: readonly (keyof FetchOptions)[] = [
  'limiter',
  'keys',
  'cost',
  'settle',
  'maxWaitMs',
  'pace',
  'retry',
  'fetch',
  'onRetry',
  'onGiveUp',
  'logger',
];

const RETRY_OPTIONS: readonly (keyof RetryOptions)[] = [
  'retries',
  'statuses',
  'methods',
  'networkErrors',
  'baseMs',
  'maxBackoffMs',
  'maxDelayMs',
  'maxTotalMs',
  'budget',
  'random',
];

/** @throws TollgateConfigError with the path of the option at fault and the mend. */
export function checkOptions(options: unknown): asserts options is FetchOptions {
  const { limiter, keys, cost, maxWaitMs, pace, retry, logger, ...rest } = known(
    options,
    OPTIONS,
    '',
  ) as Readonly<Record<keyof FetchOptions, unknown>>;
  for (const name of ['settle', 'fetch', 'onRetry', 'onGiveUp'] as const) {
    check(name, rest[name], isFunction, 'a function');
  }
  check('limiter', limiter, (value) => has(value, 'wait'), 'a limiter, from createLimiter()');
  check('keys', keys, (value) => isFunction(value) || isObject(value), 'keys by limit name');
  if (limiter !== undefined && keys === undefined) {
    throw new TollgateConfigError(
      'keys',
      'a limiter needs to know whose budget to charge; say so, as in { keys: { name: "key" } }',
    );
  }
  check(
    'cost',
    cost,
    (value) => isFunction(value) || isObject(value) || isCount(value),
    'a whole number of 0 or more, costs by limit name, or a function',
  );
  check('maxWaitMs', maxWaitMs, isDuration, 'a number of milliseconds from 0');
  check('pace', pace, isBoolean, 'true or false');
  check(
    'logger',
    logger,
    (value) => has(value, 'warn') && has(value, 'error'),
    'an object with the functions warn and error',
  );
  if (retry !== undefined && retry !== false) checkRetry(retry);
}

function checkRetry(value: unknown): void {
  const { retries, statuses, methods, networkErrors, budget, random, ...durations } = known(
    value,
    RETRY_OPTIONS,
    'retry',
  ) as Readonly<Record<keyof RetryOptions, unknown>>;
  check('retry.retries', retries, isCount, 'a whole number of 0 or more');
  check('retry.statuses', statuses, listOf(isStatus), 'an array of statuses from 400 to 599');
  check('retry.methods', methods, listOf(isText), 'an array of methods, such as ["POST"]');
  check('retry.networkErrors', networkErrors, isBoolean, 'true or false');
  check('retry.random', random, isFunction, 'a function');
  check('retry.baseMs', durations.baseMs, isPositive, 'a number of milliseconds above 0');
  for (const name of ['maxBackoffMs', 'maxDelayMs', 'maxTotalMs'] as const) {
    check(`retry.${name}`, durations[name], isDuration, 'a number of milliseconds from 0');
  }
  if (budget === undefined || budget === false) return;
  const { share, minimum } = known(budget, ['share', 'minimum'], 'retry.budget');
  const isShare = (part: unknown): boolean => isDuration(part) && Number(part) <= 1;
  check('retry.budget.share', share, isShare, 'a number from 0 to 1');
  check('retry.budget.minimum', minimum, isDuration, 'a number from 0');
}

/** The fields of an object that has no others than these. */
function known(
  value: unknown,
  names: readonly string[],
  path: string,
): Readonly<Record<string, unknown>> {
  if (!isObject(value))
    throw new TollgateConfigError(path, `expected an object, got ${show(value)}`);
  for (const name of Object.keys(value)) {
    if (names.includes(name)) continue;
    throw new TollgateConfigError(
      path === '' ? name : `${path}.${name}`,
      `there is no such option; there are ${names.join(', ')}`,
    );
  }
  return value as Readonly<Record<string, unknown>>;
}

function check(
  path: string,
  value: unknown,
  isRight: (value: unknown) => boolean,
  expected: string,
): void {
  if (value === undefined || isRight(value)) return;
  throw new TollgateConfigError(path, `expected ${expected}, got ${show(value)}`);
}

function show(value: unknown): string {
  if (typeof value === 'string') return `${JSON.stringify(value.slice(0, 40))} (string)`;
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'an array' : 'an object';
  return typeof value === 'function' ? 'a function' : String(value);
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const isFunction = (value: unknown): boolean => typeof value === 'function';
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';
const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isDuration = (value: unknown): boolean => typeof value === 'number' && value >= 0;
const isPositive = (value: unknown): boolean => isDuration(value) && Number(value) > 0;
const isStatus = (value: unknown): boolean =>
  isCount(value) && Number(value) >= 400 && Number(value) < 600;

function listOf(isRight: (value: unknown) => boolean): (value: unknown) => boolean {
  return (value) => Array.isArray(value) && value.every(isRight);
}

function has(value: unknown, name: string): boolean {
  return isObject(value) && isFunction(Reflect.get(value, name));
}
