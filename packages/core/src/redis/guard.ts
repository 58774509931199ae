import { TollgateStoreError } from '../errors.ts';
import type { Health } from '../store.ts';
import type { Connection } from './clients.ts';

export interface BreakerOptions {
  /** Failures in a row after which the store is no longer asked; default 5. */
  readonly failures?: number;
  /** How often a store that is down is probed, in milliseconds; default 250. */
  readonly probeMs?: number;
}

/**
 * Stands between a store and Redis: no call lasts longer than its deadline, and after some failures in a row calls fail
 * at once while Redis is probed in the background.
 */
export class Guard {
  private readonly connection: Connection;
  private readonly tryOut: () => Promise<unknown>;
  private readonly deadlineMs: number;
  private readonly failuresToOpen: number;
  private readonly probeMs: number;
  private readonly mostInFlight: number;
  private failures = 0;
  private inFlight = 0;
  private everReady = false;
  private since = Date.now();
  private state: Health['store'] = 'up';
  private lastError: unknown;
  private probe: NodeJS.Timeout | undefined;
  private nextProbeAt = 0;

  constructor(
    connection: Connection,
    tryOut: () => Promise<unknown>,
    deadlineMs: number,
    mostInFlight: number,
    { failures = 5, probeMs = 250 }: BreakerOptions,
  ) {
    this.connection = connection;
    this.tryOut = tryOut;
    this.deadlineMs = deadlineMs;
    this.mostInFlight = mostInFlight;
    this.failuresToOpen = failures;
    this.probeMs = probeMs;
    connection.onError((error) => (this.lastError = error));
  }

  /** Whether nothing has been sent that is not answered yet. */
  get idle(): boolean {
    return this.inFlight === 0;
  }

  health(): Health {
    return { store: this.state, since: this.since, lastError: this.lastError };
  }

  /**
   * Sends a call that was made at `madeAt`, on the monotonic clock.
   *
   * @returns a promise that rejects with TollgateStoreError when Redis cannot answer in time. The call may have been
   * carried out nevertheless.
   */
  async call<T>(send: () => Promise<T>, madeAt: number): Promise<T> {
    if (this.state !== 'up') throw this.refuse('the store is down');
    if (this.inFlight >= this.mostInFlight) throw this.refuse('too many calls are in flight');
    const leftMs = this.deadlineMs - (performance.now() - madeAt);
    this.inFlight++;
    try {
      const value = await this.inTime(send, leftMs);
      this.failures = 0;
      this.everReady = true;
      return value;
    } catch (error) {
      this.lastError = error;
      if (++this.failures >= this.failuresToOpen) this.open();
      throw this.refuse('the store failed', error);
    } finally {
      this.inFlight--;
    }
  }

  close(): void {
    clearInterval(this.probe);
  }

  private async inTime<T>(send: () => Promise<T>, leftMs: number): Promise<T> {
    if (!this.connection.isReady() && this.everReady) throw new Error('not connected');
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`no answer within ${this.deadlineMs} ms`)),
        Math.max(0, leftMs),
      );
    });
    const answer = this.connection.isReady() ? send() : this.connection.ready().then(send);
    // A late answer is nobody's any more, and must not be an unhandled rejection.
    answer.catch(() => undefined);
    try {
      return await Promise.race([answer, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  private refuse(problem: string, cause?: unknown): TollgateStoreError {
    const untilProbe = this.state === 'up' ? 0 : this.nextProbeAt - performance.now();
    return new TollgateStoreError(problem, Math.max(0, untilProbe), cause);
  }

  private open(): void {
    if (this.state !== 'up') return;
    this.change('down');
    this.nextProbeAt = performance.now() + this.probeMs;
    this.probe = setInterval(() => void this.tryAgain(), this.probeMs);
    this.probe.unref();
  }

  private async tryAgain(): Promise<void> {
    this.nextProbeAt = performance.now() + this.probeMs;
    if (this.state === 'probing' || !this.connection.isReady()) return;
    this.change('probing');
    try {
      await this.inTime(this.tryOut, this.deadlineMs);
      clearInterval(this.probe);
      this.failures = 0;
      this.everReady = true;
      this.change('up');
    } catch (error) {
      this.lastError = error;
      this.change('down');
    }
  }

  private change(state: Health['store']): void {
    // Being probed is being down still.
    if (this.state === 'up' || state === 'up') this.since = Date.now();
    this.state = state;
  }
}
