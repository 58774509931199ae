import { show, TollgateConfigError } from '../errors.ts';
import type { Decision } from '../decision.ts';
import type { MaybePromise } from '../maybe-promise.ts';
import { parseDuration } from '../duration.ts';
import { type Cost, LIMIT_OPTIONS, type LimitOptions, refuseUnknown } from '../limits.ts';
import type { Logger } from '../logger.ts';
import type { PolicyInput } from '../policy.ts';
import type { Store } from '../store.ts';
import type { HeaderForm } from './headers.ts';
import type { HttpRequest, KeyFunction } from './request.ts';
import type { LoadShedder } from './shedder.ts';

/** Which responses count; the others give their charge back. A failure is a status of 400 or more, or no answer. */
export type CountOnly = 'failures' | 'successes' | ((status: number) => boolean);

/** Where in Fastify's life of a request a limit is asked. */
export type Stage = 'onRequest' | 'preHandler';

/** A limit on requests. Functions may be async, within `functionTimeoutMs`. */
export interface GateLimitOptions<R = HttpRequest> extends Omit<LimitOptions, 'policy' | 'cost'> {
  /** Whose budget is charged; default `clientIp()`. */
  readonly by?: KeyFunction<R>;
  /** A policy, or a function that gives the caller's plan. */
  readonly policy: PolicyInput | ((request: R) => MaybePromise<PolicyInput>);
  readonly cost?: number | ((request: R) => MaybePromise<number>);
  /** Reserve first, and give back after the response what does not count. */
  readonly countOnly?: CountOnly;
  /** Fastify only; default `"onRequest"`, before parsing and authentication. */
  readonly stage?: Stage;
  /** Requests that this limit does not apply to. */
  readonly skip?: (request: R) => MaybePromise<boolean>;
  /** Addresses and CIDR ranges that this limit never applies to. */
  readonly allowList?: readonly string[];
  /** Addresses and CIDR ranges answered with 403 before the store is asked. */
  readonly denyList?: readonly string[];
}

/** What a route changes. */
export interface RouteOptions<R = HttpRequest> {
  /** What a request to this route costs the limits that have no cost of their own, or a cost by limit name. */
  readonly cost?: Cost | ((request: R) => MaybePromise<Cost>);
  /** More limits, checked together with the gate's. */
  readonly limits?: readonly GateLimitOptions<R>[];
  /** False to leave the gate's limits out; default true. */
  readonly inherit?: boolean;
}

export interface GateOptions<R = HttpRequest> {
  readonly store?: Store;
  readonly limits?: readonly GateLimitOptions<R>[];
  /** Short for one limit named "default" by clientIp(). */
  readonly policy?: PolicyInput;
  /** Default `["draft-6", "draft-11"]`; false sends none but Retry-After. */
  readonly headers?: readonly HeaderForm[] | false;
  readonly priorities?: readonly string[];
  /** The priority of a request; default the limiter's. */
  readonly priority?: (request: R) => MaybePromise<string | undefined>;
  /** Refuses requests while the process is overloaded, before any limit is asked; default none. */
  readonly shedder?: LoadShedder;
  /** How long a request may be held for a leaky bucket or for reservations to settle, in milliseconds; default 5,000. */
  readonly maxWaitMs?: number;
  /** How many requests may be held at once; default 1,000. */
  readonly maxWaiting?: number;
  /** Whether CORS preflights are charged; default false. */
  readonly chargePreflights?: boolean;
  /** How long a function of the options may take, in milliseconds; default 1,000. */
  readonly functionTimeoutMs?: number;
  /** Retry-After of a refusal by a concurrency limit, in seconds; default 1. */
  readonly concurrencyRetryAfter?: number;
  /** Told of every refusal. */
  readonly onReject?: (request: R, decision: Decision) => void;
  /** Shapes the body of a refusal; default a problem of RFC 9457. */
  readonly problem?: (request: R, decision: Decision) => MaybePromise<object | string>;
  /** How keys appear in logs and counts of refusals; default `"clear"`. Secrets are hashed whatever this is. */
  readonly logKeys?: 'clear' | 'hash' | false;
  readonly logger?: Logger;
  /** Told of every decision: those of deny lists and of the shedder too. Must not throw. */
  readonly onDecision?: (decision: Decision) => void;
  readonly onStoreError?: (error: unknown) => void;
}

export const GATE_OPTIONS = [
  'store',
  'limits',
  'policy',
  'headers',
  'priorities',
  'priority',
  'shedder',
  'maxWaitMs',
  'maxWaiting',
  'chargePreflights',
  'functionTimeoutMs',
  'concurrencyRetryAfter',
  'onReject',
  'problem',
  'logKeys',
  'logger',
  'onDecision',
  'onStoreError',
] as const;

const GATE_LIMIT_OPTIONS = [
  ...LIMIT_OPTIONS,
  'by',
  'countOnly',
  'stage',
  'skip',
  'allowList',
  'denyList',
] as const;

const ROUTE_OPTIONS = ['cost', 'limits', 'inherit'] as const;

/** The limits of a gate, the short form included. */
export function limitsOf<R>(options: GateOptions<R>): readonly GateLimitOptions<R>[] {
  const { limits, policy } = options;
  if (policy !== undefined && limits !== undefined) {
    throw new TollgateConfigError('policy', 'stands beside limits; put it into one of them');
  }
  if (policy !== undefined) return [{ name: 'default', policy }];
  if (Array.isArray(limits)) return limits as readonly GateLimitOptions<R>[];
  throw new TollgateConfigError(
    'limits',
    limits === undefined
      ? 'missing; give limits: [{ name, policy }], or policy for one limit by client address'
      : `expected an array of limits, got ${show(limits)}`,
  );
}

/** Validates what of a gate limit the limiter does not know. */
export function checkGateLimit<R>(options: GateLimitOptions<R>, path: string): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError(path, `expected a limit, got ${show(options)}`);
  }
  refuseUnknown(options, GATE_LIMIT_OPTIONS, path);
  const { by, policy, cost, skip, countOnly, stage } = options;
  checkFunction(by, `${path}.by`, 'a key function such as clientIp()');
  checkFunction(skip, `${path}.skip`, 'a function of the request');
  if (policy === undefined) {
    throw new TollgateConfigError(
      `${path}.policy`,
      'missing; expected a policy, or a function that gives one',
    );
  }
  if (typeof cost !== 'number') {
    checkFunction(
      cost,
      `${path}.cost`,
      'a whole number of 0 or more, or a function of the request',
    );
  }
  if (countOnly !== 'failures' && countOnly !== 'successes') {
    checkFunction(
      countOnly,
      `${path}.countOnly`,
      '"failures", "successes" or a function of the status',
    );
  }
  if (stage !== undefined && stage !== 'onRequest' && stage !== 'preHandler') {
    throw new TollgateConfigError(
      `${path}.stage`,
      `expected "onRequest" or "preHandler", got ${show(stage)}`,
    );
  }
}

/** Validates what a route changes. */
export function checkRoute<R>(options: RouteOptions<R>, path: string): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new TollgateConfigError(
      path,
      `expected { cost?, limits?, inherit? }, true or false, got ${show(options)}`,
    );
  }
  refuseUnknown(options, ROUTE_OPTIONS, path);
  const { cost, limits, inherit } = options;
  if (typeof cost !== 'number' && (typeof cost !== 'object' || cost === null)) {
    checkFunction(cost, `${path}.cost`, 'a cost, or a function of the request');
  }
  if (limits !== undefined && !Array.isArray(limits)) {
    throw new TollgateConfigError(
      `${path}.limits`,
      `expected an array of limits, got ${show(limits)}`,
    );
  }
  checkBoolean(inherit, `${path}.inherit`);
}

/** Validates a gate's own options; the limiter checks its part, and each limit is checked when it is added. */
export function checkGate<R>(options: GateOptions<R>, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected the gate's options, got ${show(options)}`);
  }
  for (const option of Object.keys(options)) {
    if (known.includes(option) || !(GATE_LIMIT_OPTIONS as readonly string[]).includes(option))
      continue;
    throw new TollgateConfigError(
      option,
      `is a limit's option; write limits: [{ name: "default", ${option}: …, policy: … }]`,
    );
  }
  refuseUnknown(options, known, '');
  checkFunction(options.priority, 'priority', 'a function of the request');
  checkFunction(options.onReject, 'onReject', 'a function');
  checkFunction(options.problem, 'problem', 'a function');
  checkFunction(options.onDecision, 'onDecision', 'a function');
  checkFunction(options.onStoreError, 'onStoreError', 'a function');
  const shedder: Partial<LoadShedder> | null | undefined = options.shedder;
  if (shedder !== undefined && typeof shedder?.entrance !== 'function') {
    throw new TollgateConfigError('shedder', `expected loadShedder(), got ${show(shedder)}`);
  }
  checkBoolean(options.chargePreflights, 'chargePreflights');
  if (options.maxWaitMs !== undefined && options.maxWaitMs !== 0) {
    parseDuration(options.maxWaitMs, 'maxWaitMs');
  }
  if (options.functionTimeoutMs !== undefined) {
    parseDuration(options.functionTimeoutMs, 'functionTimeoutMs');
  }
  checkWhole(options.maxWaiting, 0, 'maxWaiting');
  checkWhole(options.concurrencyRetryAfter, 1, 'concurrencyRetryAfter');
  const { logKeys } = options;
  if (logKeys !== undefined && logKeys !== 'clear' && logKeys !== 'hash' && logKeys !== false) {
    throw new TollgateConfigError(
      'logKeys',
      `expected "clear", "hash" or false, got ${show(logKeys)}`,
    );
  }
}

function checkFunction(value: unknown, path: string, what: string): void {
  if (value === undefined || typeof value === 'function') return;
  throw new TollgateConfigError(path, `expected ${what}, got ${show(value)}`);
}

function checkBoolean(value: unknown, path: string): void {
  if (value === undefined || typeof value === 'boolean') return;
  throw new TollgateConfigError(path, `expected true or false, got ${show(value)}`);
}

function checkWhole(value: unknown, least: number, path: string): void {
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= least)) return;
  throw new TollgateConfigError(
    path,
    `expected a whole number of ${least} or more, got ${show(value)}`,
  );
}
