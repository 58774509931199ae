/** A script or its digest, how many keys follow, these, and what else it is told. */
export type ScriptArgs = readonly (string | Buffer)[];

/** Where in them the first key is. */
export const FIRST_KEY = 2;

/** What the store needs of a Redis client, whichever it is. */
export interface Connection {
  /** Whether keys are spread over slots, so that a script may only touch keys of one. */
  readonly cluster: boolean;
  /** What the client's settings put before every key, and the store must, since the client does not do it here. */
  readonly keyPrefix: string;
  isReady(): boolean;
  /** Resolves when a command may be sent. */
  ready(): Promise<void>;
  /** Sends a command once. The client must neither queue nor repeat it. `key` says which node of a cluster. */
  send(command: readonly string[], key: string | undefined): Promise<unknown>;
  /** The same for a script with keys, which is told bytes and answers with bytes. */
  evaluate(name: 'EVALSHA' | 'EVAL', args: ScriptArgs): Promise<unknown>;
  /** Tells of errors of the connection, which a client would otherwise throw. */
  onError(listener: (error: unknown) => void): void;
  /** Gives up a connection that answers no more, and makes it anew. A client that is shared is left alone. */
  reconnect(): void;
  /** Ends the store's own connection, or stops listening to a shared client. */
  close(): Promise<void>;
}

/** Whether the store opens a connection of its own, or uses the client's. */
export type ConnectionMode = 'own' | 'shared';

type Listener = (...args: unknown[]) => void;

/** What every client is: an emitter of events. */
export interface Emitter {
  on(event: string, listener: Listener): unknown;
  off(event: string, listener: Listener): unknown;
}

/** What a connection tells of itself, to however many wait for it, whichever client it is of by then. */
export class Told {
  private readonly listeners: ((error: unknown) => void)[] = [];
  private waiting: Promise<void> | undefined;
  private announce: (() => void) | undefined;

  readonly ready = (): void => {
    this.announce?.();
    this.waiting = undefined;
  };

  readonly error = (error: unknown): void => {
    for (const listener of this.listeners) listener(error);
  };

  nextReady(): Promise<void> {
    this.waiting ??= new Promise((resolve) => (this.announce = resolve));
    return this.waiting;
  }

  onError(listener: (error: unknown) => void): void {
    this.listeners.push(listener);
  }
}

/** Listens to a client. Returns what leaves it as it was. */
export function listen(
  emitter: Emitter,
  listeners: Readonly<Record<string, Listener>>,
): () => void {
  const all = Object.entries(listeners);
  for (const [event, listener] of all) emitter.on(event, listener);
  return () => {
    for (const [event, listener] of all) emitter.off(event, listener);
  };
}

const LONGEST_PAUSE_MS = 250;

/** Milliseconds to wait before an attempt to connect, counted from 1: few, so that Redis is noticed soon after it is back. */
export function reconnectAfter(attempt: number): number {
  return Math.min(50 * attempt, LONGEST_PAUSE_MS);
}

/** Whether Redis refused since it is a replica: a demoted master says so on connections that it had before. */
export function isReadOnly(error: unknown): boolean {
  // Before Redis 7 the code does not stand first when a script was refused.
  return error instanceof Error && /\bREADONLY\b/.test(error.message);
}
