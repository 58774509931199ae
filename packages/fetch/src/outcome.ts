/** Why a refusal or a failure is handed to the caller. */
export type GiveUpReason =
  /** All retries are used up. */
  | 'retries'
  /** The method may do more when it is sent twice, and the server may have acted. */
  | 'method'
  /** The body is a stream or an iterable, which can be sent only once. */
  | 'body'
  /** The server asks for a longer wait than `maxDelayMs`. */
  | 'delay'
  /** The retry would start later than `maxTotalMs` after the first attempt. */
  | 'total'
  /** The origin has had its share of retries. */
  | 'budget'
  /** The limiter, or the server's hold, had no place for the retry in time. */
  | 'place';

/** One attempt that is followed by another. Durations are milliseconds. */
export interface Retry {
  readonly method: string;
  readonly url: string;
  /** Which attempt failed, from 1. */
  readonly attempt: number;
  /** How long until the next one. */
  readonly delayMs: number;
  /** What the server asked for; undefined where it named no time. */
  readonly serverMs: number | undefined;
  /** Undefined where no answer came. */
  readonly status: number | undefined;
  /** Why no answer came. */
  readonly error: unknown;
}

/** The last attempt of a call that ends in a refusal or a failure. */
export interface GiveUp extends Omit<Retry, 'delayMs'> {
  readonly reason: GiveUpReason;
}

/** How a call came to its response. */
export interface Outcome {
  /** How many requests were sent. */
  readonly attempts: number;
  /** Why it was not retried; undefined for an answer that needed no retry. */
  readonly reason: GiveUpReason | undefined;
  /** How long the server asked to wait before the next request, in milliseconds; undefined where it named no time. */
  readonly serverMs: number | undefined;
}

const outcomes = new WeakMap<Response, Outcome>();

export function noteOutcome(response: Response, outcome: Outcome): Response {
  outcomes.set(response, outcome);
  return response;
}

/**
 * Tells how a call came to its response: how many requests were sent, and why a refusal was not retried.
 *
 * @returns undefined for a response that did not come from a fetch of createFetch().
 */
export function outcomeOf(response: Response): Outcome | undefined {
  return outcomes.get(response);
}
