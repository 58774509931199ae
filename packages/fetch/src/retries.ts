import { RetryBudget } from './budget.ts';
import type { Call } from './call.ts';
import { type Backoff, delayBefore } from './delays.ts';
import type { RetryOptions } from './options.ts';
import type { GiveUpReason } from './outcome.ts';

/** An attempt that did not end well. */
export interface Failure {
  /** Undefined where no answer came. */
  readonly status: number | undefined;
  /** What the server asks for, in milliseconds; undefined when it names no time. */
  readonly serverMs: number | undefined;
  /** How many attempts there were, this one included. */
  readonly attempts: number;
  /** When the first was made, by the monotonic clock. */
  readonly startedAt: number;
}

/** Decides which attempts are followed by another, and when. */
export class Retries {
  private readonly most: number;
  private readonly statuses: readonly number[];
  private readonly methods: readonly string[];
  private readonly networkErrors: boolean;
  private readonly maxTotalMs: number;
  private readonly backoff: Backoff;
  private readonly budget: RetryBudget | undefined;

  constructor(options: RetryOptions | false) {
    const {
      retries = 3,
      statuses = [429, 503],
      methods = [],
      networkErrors = false,
    } = options === false ? { retries: 0, statuses: [] } : options;
    const {
      baseMs = 500,
      maxBackoffMs = 30_000,
      maxDelayMs = 60_000,
      maxTotalMs = 120_000,
    } = options || {};
    const { budget = {}, random = Math.random } = options || {};
    this.most = retries;
    this.statuses = statuses;
    this.methods = methods.map((method) => method.toUpperCase());
    this.networkErrors = networkErrors;
    this.maxTotalMs = maxTotalMs;
    this.backoff = { baseMs, maxBackoffMs, maxDelayMs, random };
    if (budget !== false) this.budget = new RetryBudget(budget.share ?? 0.2, budget.minimum ?? 10);
  }

  /** Whether an answer asks for another attempt. */
  refuses(status: number): boolean {
    return this.statuses.includes(status);
  }

  /**
   * Whether a fetch rejected because of the network: with a TypeError, as the platform has it, or with a TimeoutError,
   * where the caller's own `fetch` limits an attempt in time.
   */
  failed(error: unknown): boolean {
    if (!this.networkErrors) return false;
    return error instanceof TypeError || (error instanceof Error && error.name === 'TimeoutError');
  }

  /** Whether no attempt follows, however this one ends. */
  isLast(attempts: number): boolean {
    return attempts > this.most;
  }

  /** How much of the time for all attempts is left, in milliseconds. */
  leftMs(startedAt: number): number {
    return Math.max(0, startedAt + this.maxTotalMs - performance.now());
  }

  /** Counts a call, which pays for a share of a retry. */
  paid({ url }: Call): void {
    this.budget?.request(url.origin);
  }

  /** The delay before the next attempt in milliseconds, or why there is none. */
  decide(call: Call, { status, serverMs, attempts, startedAt }: Failure): number | GiveUpReason {
    // On 429 the server refused before it acted; on anything else nobody knows.
    if (status !== 429 && !call.repeatable && !this.methods.includes(call.method)) return 'method';
    if (!call.sendsAgain) return 'body';
    if (this.isLast(attempts)) return 'retries';
    if (serverMs !== undefined && serverMs > this.backoff.maxDelayMs) return 'delay';
    const delayMs = delayBefore(attempts - 1, serverMs, this.backoff);
    if (delayMs > this.leftMs(startedAt)) return 'total';
    // Who refuses one client and names a time is no server in trouble: it paces the retry itself.
    const paced = status === 429 && serverMs !== undefined && serverMs > 0;
    if (!paced && this.budget?.retry(call.url.origin) === false) return 'budget';
    return delayMs;
  }
}
