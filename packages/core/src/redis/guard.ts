import { performance } from 'node:perf_hooks';
import { TollgateStoreError } from '../errors.ts';
import { storeCalls, storeHealth } from '../events.ts';
import type { Health } from '../store.ts';
import type { BreakerOptions } from './breaker.ts';
import type { Connection } from './clients.ts';
import { type Deadline, Deadlines } from './deadlines.ts';

/** Probes in a row without any answer after which the connection is taken for dead, and made anew. */
const SILENT_PROBES = 2;
/** How long a new connection may take while the store is down; twice as long after each that took longer. */
const PATIENCE_MS = 1_000;
const MOST_PATIENCE_MS = 16_000;

/**
 * Stands between a store and Redis: no call lasts longer than its deadline, and after some failures in a row calls fail
 * at once while Redis is probed in the background.
 */
export class Guard {
  private readonly name: string;
  private readonly connection: Connection;
  private readonly tryOut: () => Promise<unknown>;
  private readonly deadlineMs: number;
  private readonly failuresToOpen: number;
  private readonly probeMs: number;
  private readonly mostInFlight: number;
  private readonly deadlines = new Deadlines();
  /** Resolves when the connection is ready for the first time. */
  private readonly firstReady: Promise<void>;
  private wasReady = false;
  private failures = 0;
  private inFlight = 0;
  private since = Date.now();
  private state: Health['store'] = 'up';
  private lastError: unknown;
  private lastOfConnection: Error | undefined;
  /** What calls fail with while the store is down: the failure that was one too many. */
  private outage: TollgateStoreError | undefined;
  /** What calls fail with while too many are in flight. */
  private crowd: TollgateStoreError | undefined;
  private probe: NodeJS.Timeout | undefined;
  private nextProbeAt = 0;
  private silentProbes = 0;
  private patienceMs = PATIENCE_MS;
  private connectingSince = 0;
  private closed = false;

  /** @param name what events call the store. */
  constructor(
    name: string,
    connection: Connection,
    tryOut: () => Promise<unknown>,
    deadlineMs: number,
    mostInFlight: number,
    { failures = 5, probeMs = 250 }: BreakerOptions,
  ) {
    this.name = name;
    this.connection = connection;
    this.tryOut = tryOut;
    this.deadlineMs = deadlineMs;
    this.mostInFlight = mostInFlight;
    this.failuresToOpen = failures;
    this.probeMs = probeMs;
    connection.onError((error) => (this.lastError = this.lastOfConnection = bare(error)));
    this.firstReady = connection.isReady() ? Promise.resolve() : connection.ready();
    void this.firstReady.then(() => (this.wasReady = true));
  }

  /** Whether nothing has been sent that is not answered yet. */
  get idle(): boolean {
    return this.inFlight === 0;
  }

  /** What a call made now would fail with at once; undefined while the store is up. */
  get refusal(): TollgateStoreError | undefined {
    return this.outage;
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
  call<T>(send: () => Promise<T>, madeAt: number): Promise<T> {
    if (this.outage !== undefined) return Promise.reject(this.outage);
    if (this.inFlight >= this.mostInFlight) return Promise.reject(this.crowded());
    const sentAt = performance.now();
    const expiresAt = madeAt + this.deadlineMs;
    // Nothing was sent, so nothing was learnt about Redis.
    if (expiresAt <= sentAt) {
      return Promise.reject(this.failure('this process was busy until the deadline had passed'));
    }
    return new Promise((resolve, reject) => {
      const done = (value: T): void => {
        this.failures = 0;
        if (storeCalls.hasSubscribers) this.tellOf(sentAt, undefined);
        resolve(value);
      };
      const failed = (error: unknown): void => {
        const cause = (this.lastError = bare(error));
        if (storeCalls.hasSubscribers) this.tellOf(sentAt, cause);
        const failure = this.failure(`the store failed: ${cause.message}`, cause);
        if (++this.failures >= this.failuresToOpen) this.open(failure);
        reject(failure);
      };
      this.start(send, expiresAt, done, failed);
    });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.probe);
  }

  /** Promises the outcome of a call that is made now, whatever was learnt about Redis. */
  private inTime(send: () => Promise<void>): Promise<void> {
    const expiresAt = performance.now() + this.deadlineMs;
    return new Promise((resolve, reject) => this.start(send, expiresAt, resolve, reject));
  }

  private tellOf(sentAt: number, error: Error | undefined): void {
    storeCalls.publish({ name: this.name, durationMs: performance.now() - sentAt, error });
  }

  /** Starts what is in flight until it is answered, which may be long after its deadline. */
  private start<T>(
    send: () => Promise<T>,
    expiresAt: number,
    done: (value: T) => void,
    failed: (error: unknown) => void,
  ): void {
    const deadline = this.deadlines.add(expiresAt, () => failed(this.overdue()));
    this.inFlight++;
    this.sent(send, deadline).then(
      (value) => {
        if (this.isInTime(deadline)) done(value);
      },
      (error: unknown) => {
        if (this.isInTime(deadline)) failed(error);
      },
    );
  }

  /** Ends a call. What comes after its deadline is nobody's any more. */
  private isInTime(deadline: Deadline): boolean {
    this.inFlight--;
    if (this.inFlight <= this.mostInFlight / 2) this.crowd = undefined;
    if (deadline.isOver) return false;
    this.deadlines.remove(deadline);
    return true;
  }

  private sent<T>(send: () => Promise<T>, deadline: Deadline): Promise<T> {
    if (!this.connection.isReady()) return this.sentOnceReady(send, deadline);
    try {
      return send();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  private async sentOnceReady<T>(send: () => Promise<T>, deadline: Deadline): Promise<T> {
    if (this.wasReady) throw new Error(this.absent());
    await this.firstReady;
    if (deadline.isOver) throw new Error('connected too late');
    return send();
  }

  private overdue(): Error {
    return new Error(this.wasReady ? `no answer within ${this.deadlineMs} ms` : this.absent());
  }

  private absent(): string {
    const why = this.lastOfConnection?.message;
    return why === undefined ? 'not connected' : `not connected; the last error was: ${why}`;
  }

  /** One error as long as the crowd lasts, since it is one fault. */
  private crowded(): TollgateStoreError {
    return (this.crowd ??= this.failure(`${this.inFlight} calls are not answered yet`));
  }

  private failure(problem: string, cause?: Error): TollgateStoreError {
    const untilProbe = (): number =>
      this.state === 'up' ? 0 : Math.max(0, this.nextProbeAt - performance.now());
    return new TollgateStoreError(problem, untilProbe, cause);
  }

  private open(failure: TollgateStoreError): void {
    if (this.outage !== undefined || this.closed) return;
    this.outage = failure;
    this.change('down');
    this.silentProbes = 0;
    this.patienceMs = PATIENCE_MS;
    this.connectingSince = performance.now();
    this.nextProbeAt = performance.now() + this.probeMs;
    this.probe = setInterval(() => void this.tryAgain(), this.probeMs);
    this.probe.unref();
  }

  private async tryAgain(): Promise<void> {
    this.nextProbeAt = performance.now() + this.probeMs;
    if (this.state === 'probing') return;
    if (!this.connection.isReady()) return this.hurry();
    this.change('probing');
    let answered = true;
    try {
      await this.inTime(async () => {
        answered = false;
        const answer = this.tryOut();
        const known = (): boolean => (answered = true);
        answer.then(known, known);
        await answer;
      });
      clearInterval(this.probe);
      this.outage = undefined;
      // The first call has to show that more than the probe is answered.
      this.failures = this.failuresToOpen - 1;
      this.change('up');
    } catch (error) {
      this.lastError = bare(error);
      this.change('down');
      this.connectingSince = performance.now();
      this.silentProbes = answered ? 0 : this.silentProbes + 1;
      if (this.silentProbes >= SILENT_PROBES) this.reconnect();
    }
  }

  /** Gives up a connection that takes too long to be ready. */
  private hurry(): void {
    if (performance.now() - this.connectingSince < this.patienceMs) return;
    this.patienceMs = Math.min(2 * this.patienceMs, MOST_PATIENCE_MS);
    this.reconnect();
  }

  /** The other end of a dead connection never says so: a packet filter, or a machine that is gone. */
  private reconnect(): void {
    if (this.closed) return;
    this.silentProbes = 0;
    this.connectingSince = performance.now();
    this.connection.reconnect();
  }

  private change(state: Health['store']): void {
    // Being probed is being down still.
    if (this.state === 'up' || state === 'up') this.since = Date.now();
    const before = this.state;
    this.state = state;
    if (!storeHealth.hasSubscribers) return;
    storeHealth.publish({ name: this.name, health: this.health(), before });
  }
}

/** What an error says, without the command that failed: that may hold passwords and keys, and errors are logged. */
function bare(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const { name, message, stack, code } = error as Error & { code?: unknown };
  const said = message === '' && typeof code === 'string' ? code : message;
  const told = Object.assign(new Error(said), typeof code === 'string' && { code });
  Object.defineProperty(told, 'name', { value: name, configurable: true });
  Object.defineProperty(told, 'stack', { value: stack, configurable: true });
  return told;
}
