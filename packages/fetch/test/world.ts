import { onTestFinished, vi } from 'vitest';
import type { FetchOptions, GiveUp, Retry } from '../src/index.ts';

/** The start of the year 2026, when the stopped clock begins. */
export const START = 1_767_225_600_000;

/** Makes timers and clocks stand still until the test moves them. */
export function stopTime(): void {
  vi.useFakeTimers({
    now: START,
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  });
  onTestFinished(() => void vi.useRealTimers());
}

/** Moves the time, and lets everything happen that is due. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** How many timers are set. */
export function timers(): number {
  return vi.getTimerCount();
}

/** Moves the time until a promise is settled, and returns what it is. */
export async function soon<T>(promise: Promise<T>, mostMs = 3_600_000): Promise<T> {
  let settled = false;
  const settle = (): void => void (settled = true);
  promise.then(settle, settle);
  for (let ms = 0; !settled && ms < mostMs; ms += 50) await pass(50);
  return promise;
}

type Answer = (request: Request, nth: number) => Response | Promise<Response>;

/** A provider in this process: what it was sent and when, in milliseconds since the start. */
export class Provider {
  readonly departures: number[] = [];
  readonly bodies: string[] = [];
  private readonly answer: Answer;

  constructor(answer: Answer) {
    this.answer = answer;
  }

  /** Refuses the first requests with these headers, and answers the others. */
  static refusing(
    times: number,
    headers: Readonly<Record<string, string>>,
    status = 429,
  ): Provider {
    return new Provider((_request, nth) =>
      nth < times ? new Response('refused', { status, headers }) : new Response('served'),
    );
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    const nth = this.departures.push(Date.now() - START) - 1;
    this.bodies.push(await request.text());
    return this.answer(request, nth);
  };
}

/** What is told of retries, as it is told. */
export class Diary {
  readonly retries: Retry[] = [];
  readonly givenUp: GiveUp[] = [];
  readonly logged: string[] = [];

  readonly observers: Pick<FetchOptions, 'onRetry' | 'onGiveUp' | 'logger'> = {
    onRetry: (retry) => void this.retries.push(retry),
    onGiveUp: (giveUp) => void this.givenUp.push(giveUp),
    logger: {
      warn: (_details: unknown, message?: string) => void this.logged.push(message ?? ''),
      error: (_details: unknown, message?: string) => void this.logged.push(message ?? ''),
    },
  };
}

export const URL_OF_PROVIDER = 'https://provider.example/v1/things';
