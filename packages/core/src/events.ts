import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Decision } from './decision.ts';
import { show, TollgateArgumentError } from './errors.ts';
import type { Limiter } from './limiter.ts';
import type { Policy } from './policy.ts';
import type { Health } from './store.ts';

/**
 * A request was decided: by `consume`, by a gate, or by a `wait`, whose admission is one decision and whose refusal
 * is one where it was decided. A `peek` and a `charge` decide nothing. Keys are in clear, as for `onDecision`.
 */
export interface DecisionEvent {
  readonly decision: Decision;
  readonly limiter: Limiter;
}

/** The store failed in a call that does not reject for that reason. A fault that many calls meet is told once. */
export interface StoreErrorEvent {
  readonly error: unknown;
  readonly limiter: Limiter;
}

/** A store that may fail came up, went down, or is tried again. */
export interface StoreHealthEvent {
  /** The store's, which for Redis is its prefix. */
  readonly name: string;
  readonly health: Health;
  readonly before: Health['store'];
}

/** A call to Redis is over. One is for all decisions that were asked for at the same time. */
export interface StoreCallEvent {
  /** The store's: its prefix. */
  readonly name: string;
  /** From when it was sent until it was answered or given up, in milliseconds. */
  readonly durationMs: number;
  /** Why it failed; undefined when it was answered. */
  readonly error: Error | undefined;
}

/** What an operator asked of some keys is done, or has failed. */
export interface KeysEvent {
  readonly limiter: Limiter;
  /** The names of the limits. */
  readonly limits: readonly string[];
  /** The keys by their limits' names, as `logKeys` says; undefined where that is false. */
  readonly keys: Readonly<Record<string, string>> | undefined;
  /** Why it failed; undefined when it is done. */
  readonly error: unknown;
}

export interface BanEvent extends KeysEvent {
  readonly forMs: number;
}

/** A limit has another policy. */
export interface UpdateEvent {
  readonly limiter: Limiter;
  /** The limit's name. */
  readonly limit: string;
  readonly policy: Policy;
  /** Undefined for a limit that had no fixed policy. */
  readonly before: Policy | undefined;
}

/** Units were asked for ahead of time, or go back. */
export interface LeaseEvent {
  /** The limit's. */
  readonly name: string;
  readonly event: 'granted' | 'denied' | 'expired' | 'returned';
  /** Those that the lease is about: asked for when denied, unspent when expired or returned. */
  readonly units: number;
}

/** What is told on each channel of `node:diagnostics_channel`. */
export interface TollgateEvents {
  readonly 'tollgate:decision': DecisionEvent;
  readonly 'tollgate:store-error': StoreErrorEvent;
  readonly 'tollgate:store-health': StoreHealthEvent;
  readonly 'tollgate:store-call': StoreCallEvent;
  readonly 'tollgate:reset': KeysEvent;
  readonly 'tollgate:ban': BanEvent;
  readonly 'tollgate:unban': KeysEvent;
  readonly 'tollgate:update': UpdateEvent;
  readonly 'tollgate:lease': LeaseEvent;
}

/** A channel of Node's. Ask `hasSubscribers` before a message is made: mostly nobody listens. */
export interface EventChannel<T> {
  readonly hasSubscribers: boolean;
  publish(message: T): void;
}

function open<Name extends keyof TollgateEvents>(name: Name): EventChannel<TollgateEvents[Name]> {
  return channel(name);
}

export const decisions: EventChannel<DecisionEvent> = open('tollgate:decision');
export const storeErrors: EventChannel<StoreErrorEvent> = open('tollgate:store-error');
export const storeHealth: EventChannel<StoreHealthEvent> = open('tollgate:store-health');
export const storeCalls: EventChannel<StoreCallEvent> = open('tollgate:store-call');
export const resets: EventChannel<KeysEvent> = open('tollgate:reset');
export const bans: EventChannel<BanEvent> = open('tollgate:ban');
export const unbans: EventChannel<KeysEvent> = open('tollgate:unban');
export const updates: EventChannel<UpdateEvent> = open('tollgate:update');
export const leases: EventChannel<LeaseEvent> = open('tollgate:lease');

const CHANNELS: { readonly [Name in keyof TollgateEvents]: EventChannel<TollgateEvents[Name]> } = {
  'tollgate:decision': decisions,
  'tollgate:store-error': storeErrors,
  'tollgate:store-health': storeHealth,
  'tollgate:store-call': storeCalls,
  'tollgate:reset': resets,
  'tollgate:ban': bans,
  'tollgate:unban': unbans,
  'tollgate:update': updates,
  'tollgate:lease': leases,
};

/**
 * Calls a listener for every event of a channel in this process, whichever copy of Tollgate it comes from. It is called
 * while the request is decided, so it should be quick. What it throws, or rejects with, is a warning of the process,
 * the first time; on a channel of `node:diagnostics_channel` itself it would be an uncaught exception.
 *
 * @returns what ends that.
 * @throws TollgateArgumentError for a channel that is not there, or a listener that is no function.
 */
export function onEvent<Name extends keyof TollgateEvents>(
  name: Name,
  listener: (event: TollgateEvents[Name]) => void,
): () => void {
  if (!Object.hasOwn(CHANNELS, name)) {
    throw new TollgateArgumentError(
      `There is no channel ${show(name)}; there are ${Object.keys(CHANNELS).join(', ')}.`,
    );
  }
  if (typeof listener !== 'function') {
    throw new TollgateArgumentError(`expected a function to tell, got ${show(listener)}.`);
  }
  let hasFailed = false;
  const fail = (error: unknown): void => {
    if (hasFailed) return;
    hasFailed = true;
    const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.emitWarning(`A listener of ${name} failed: ${problem}`, { code: 'TOLLGATE_LISTENER' });
  };
  const tell = (event: unknown): void => {
    try {
      // A listener that is async gives a promise, whatever its type says.
      const done: unknown = listener(event as TollgateEvents[Name]);
      if (done instanceof Promise) done.catch(fail);
    } catch (error) {
      fail(error);
    }
  };
  subscribe(name, tell);
  return () => void unsubscribe(name, tell);
}
