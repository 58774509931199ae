import type { Logger, TollgateWaitError } from '@tollgate/core';
import { Call, type FetchInput } from './call.ts';
import { type RateLimitReading, readRateLimit } from './headers/reading.ts';
import { checkOptions, type FetchOptions } from './options.ts';
import { type GiveUpReason, noteOutcome, type Retry } from './outcome.ts';
import { giveBack, holdsSlot, type Place, Places } from './places.ts';
import { SetAside } from './refusals.ts';
import { Retries } from './retries.ts';
import { Settlements } from './settling.ts';
import { sleep } from './sleeping.ts';

/** A request that was sent, and what came of it: a response, or an error. */
interface Attempt {
  readonly number: number;
  readonly place: Place;
  readonly response?: Response;
  readonly reading?: RateLimitReading;
  readonly error?: unknown;
}

/** An attempt that is to be followed by another. Its response is kept, in case there is no place for that. */
interface Refused {
  readonly attempt: Attempt;
  readonly aside: SetAside | undefined;
}

/**
 * Makes a `fetch` that keeps to limits: it waits for the limiter's before it sends, and obeys the server's when it is
 * refused. The last response is returned, refusals too; `outcomeOf(response)` tells why it was not retried.
 *
 * It rejects with TollgateWaitError when the first attempt has no place within `maxWaitMs`, with the signal's reason
 * when aborted, and otherwise as the platform's `fetch` does.
 *
 * @throws TollgateConfigError with the path of the option at fault and the mend.
 */
export function createFetch(options: FetchOptions = {}): typeof globalThis.fetch {
  checkOptions(options);
  const client = new Client(options);
  return async (input: FetchInput, init?: RequestInit) => client.send(new Call(input, init));
}

class Client {
  private readonly options: FetchOptions;
  private readonly logger: Logger;
  private readonly places: Places;
  private readonly retries: Retries;
  private readonly settlements: Settlements;

  constructor(options: FetchOptions) {
    const { limiter, keys, cost, settle, retry = {}, logger = console } = options;
    this.options = options;
    this.logger = logger;
    this.retries = new Retries(retry);
    this.settlements = new Settlements(settle, logger);
    this.places = new Places({
      limiter,
      keysOf: async (call) => (typeof keys === 'function' ? keys(call.request()) : keys),
      costOf: async (call) => (typeof cost === 'function' ? cost(call.request()) : cost),
      maxWaitMs: options.maxWaitMs ?? 60_000,
      pace: options.pace ?? false,
      random: (retry || {}).random ?? Math.random,
    });
  }

  async send(call: Call): Promise<Response> {
    try {
      return await this.attempts(call);
    } finally {
      call.end();
    }
  }

  private async attempts(call: Call): Promise<Response> {
    let startedAt = 0;
    let refused: Refused | undefined;
    for (let number = 1; ; number++) {
      let place: Place;
      try {
        place = await this.placeFor(call, refused, startedAt);
      } catch (error) {
        if (refused === undefined || !isWaitError(error)) throw error;
        return this.giveUp(call, refused, 'place');
      }
      void refused?.aside?.drop();
      if (number === 1) {
        startedAt = performance.now();
        this.retries.paid(call);
      }
      const attempt = await this.attempt(call, place, number);
      const decided = this.decide(call, attempt, startedAt);
      if (typeof decided !== 'number') return this.finish(call, attempt, decided);
      refused = await this.backOff(call, attempt, decided);
    }
  }

  /** The place of the next attempt. Rejects with TollgateWaitError when there is none in time. */
  private async placeFor(
    call: Call,
    refused: Refused | undefined,
    startedAt: number,
  ): Promise<Place> {
    const isRetry = refused !== undefined;
    try {
      const mostMs = isRetry ? this.retries.leftMs(startedAt) : Infinity;
      return await this.places.take(call, mostMs, isRetry);
    } catch (error) {
      if (!isWaitError(error)) void refused?.aside?.drop();
      throw error;
    }
  }

  /** Sends the request once. Rejects only when aborted. */
  private async attempt(call: Call, place: Place, number: number): Promise<Attempt> {
    const { fetch = globalThis.fetch } = this.options;
    // From here to the request nothing is waited for.
    if (call.isAborted) {
      place.answered(undefined);
      await giveBack(place.decision);
      throw call.signal.reason;
    }
    try {
      const response = await fetch(...call.next(this.retries.isLast(number)));
      const reading = readRateLimit(response);
      place.answered(reading);
      return { number, place, response, reading };
    } catch (error) {
      place.answered(undefined);
      // The server may have seen it, so what it cost stays charged; its slot is free.
      await place.decision?.release();
      if (call.isAborted) throw call.signal.reason;
      return { number, place, error };
    }
  }

  /** The delay before the next attempt, why there is none, or undefined where none is called for. */
  private decide(
    call: Call,
    { number, response, reading, error }: Attempt,
    startedAt: number,
  ): number | GiveUpReason | undefined {
    const { retries } = this;
    const asksForAnother =
      response === undefined ? retries.failed(error) : retries.refuses(response.status);
    if (!asksForAnother) return undefined;
    const { waitMs: serverMs } = reading ?? {};
    return retries.decide(call, {
      status: response?.status,
      serverMs,
      attempts: number,
      startedAt,
    });
  }

  private async backOff(call: Call, attempt: Attempt, delayMs: number): Promise<Refused> {
    const { place, response } = attempt;
    const { onRetry } = this.options;
    if (onRetry !== undefined) this.tell(onRetry, { ...told(call, attempt), delayMs });
    const aside = response === undefined ? undefined : new SetAside(response);
    if (aside !== undefined && this.settlements.wanted) {
      void aside.copy().then((copy) => copy && this.settlements.now(place.decision, copy, call));
    }
    void place.decision?.release();
    try {
      await sleep(delayMs, call.signal);
    } catch (reason) {
      void aside?.drop();
      throw reason;
    }
    return { attempt, aside };
  }

  private async giveUp(call: Call, refused: Refused, reason: GiveUpReason): Promise<Response> {
    const { attempt, aside } = refused;
    this.tellGiveUp(call, attempt, reason);
    if (aside === undefined) throw attempt.error;
    return noted(await aside.back(), attempt, reason);
  }

  /** Hands the caller what came of the last attempt. */
  private async finish(
    call: Call,
    attempt: Attempt,
    reason: GiveUpReason | undefined,
  ): Promise<Response> {
    const { place, response, error } = attempt;
    if (reason !== undefined) this.tellGiveUp(call, attempt, reason);
    if (response === undefined) throw error;
    const { decision } = place;
    const isWatched = decision !== undefined && (this.settlements.wanted || holdsSlot(decision));
    const delivered = isWatched
      ? await this.settlements.onReading(decision, response, call)
      : response;
    return noted(delivered, attempt, reason);
  }

  private tellGiveUp(call: Call, attempt: Attempt, reason: GiveUpReason): void {
    const { onGiveUp } = this.options;
    if (onGiveUp !== undefined) this.tell(onGiveUp, { ...told(call, attempt), reason });
  }

  /** Calls an observer, whose failing is not the request's. */
  private tell<T>(observer: (event: T) => void, event: T): void {
    try {
      observer(event);
    } catch (error) {
      this.logger.error({ err: error }, 'an observer of retries failed');
    }
  }
}

/** By its code, since a limiter may be of another copy of core, such as the one for `require`. */
function isWaitError(error: unknown): boolean {
  const code: TollgateWaitError['code'] = 'TOLLGATE_WAIT';
  return error instanceof Error && 'code' in error && error.code === code;
}

function told({ method, url }: Call, attempt: Attempt): Omit<Retry, 'delayMs'> {
  const { number, response, reading, error } = attempt;
  return {
    method,
    url: url.href,
    attempt: number,
    serverMs: reading?.waitMs,
    status: response?.status,
    error,
  };
}

function noted(response: Response, attempt: Attempt, reason: GiveUpReason | undefined): Response {
  const { number, reading } = attempt;
  const serverMs = reason === undefined ? undefined : reading?.waitMs;
  return noteOutcome(response, { attempts: number, reason, serverMs });
}
