import { show, TollgateConfigError } from '../errors.ts';

/** What the store needs of a Redis client, whichever it is. */
export interface Connection {
  /** Whether keys are spread over slots, so that a script may only touch keys of one. */
  readonly cluster: boolean;
  isReady(): boolean;
  /** Resolves when a command may be sent. */
  ready(): Promise<void>;
  /** Sends a command once. The client must neither queue nor repeat it. `key` says which node of a cluster. */
  send(command: readonly string[], key: string | undefined): Promise<unknown>;
  /** Tells of errors of the connection, which a client would otherwise throw. */
  onError(listener: (error: unknown) => void): void;
  close(): Promise<void>;
}

type Listener = (...args: unknown[]) => void;

interface Emitter {
  on(event: string, listener: Listener): unknown;
  once(event: string, listener: Listener): unknown;
  off(event: string, listener: Listener): unknown;
}

/** ioredis and iovalkey: `Redis`. */
export interface IoRedisLike extends Emitter {
  readonly status: string;
  readonly isCluster?: boolean;
  readonly options: object;
  duplicate(...args: never[]): unknown;
  call(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(): void;
}

/** node-redis: what `createClient()` and `createCluster()` return. */
export interface NodeRedisLike extends Emitter {
  readonly isOpen: boolean;
  readonly isReady?: boolean;
  duplicate(overrides?: never): unknown;
  sendCommand(...args: never[]): Promise<unknown>;
  connect(): Promise<unknown>;
  destroy(): unknown;
}

export type RedisClient = IoRedisLike | NodeRedisLike;

const RECONNECT_MS = 250;

/** A later attempt waits no longer than this, so that a store is noticed soon after it is back. */
const reconnectAfter = (attempt: number): number => Math.min(50 * attempt, RECONNECT_MS);

/**
 * Binds a client. `own` duplicates it once, with settings under which no command is queued or sent again; the client
 * given is left as it is. `shared` uses it as it is.
 *
 * @throws TollgateConfigError for a client that is not known.
 */
export function connect(client: unknown, mode: 'own' | 'shared'): Connection {
  if (isIoRedis(client)) {
    return client.isCluster === true
      ? ioRedisCluster(client, mode)
      : ioRedisConnection(mode === 'own' ? duplicateIoRedis(client) : client, mode, false);
  }
  if (isNodeRedis(client)) return nodeRedisConnection(client, mode);
  throw new TollgateConfigError(
    'client',
    `expected a client of ioredis, iovalkey or node-redis, got ${show(client)}`,
  );
}

function isIoRedis(client: unknown): client is IoRedisLike {
  const { status, call, duplicate } = (client ?? {}) as Partial<IoRedisLike>;
  return (
    typeof status === 'string' && typeof call === 'function' && typeof duplicate === 'function'
  );
}

function isNodeRedis(client: unknown): client is NodeRedisLike {
  const { sendCommand, duplicate, isOpen } = (client ?? {}) as Partial<NodeRedisLike>;
  return (
    typeof sendCommand === 'function' &&
    typeof duplicate === 'function' &&
    typeof isOpen === 'boolean'
  );
}

/** Settings of ioredis under which a command is sent once, at once, or refused. */
const SEND_ONCE = {
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  maxRetriesPerRequest: 0,
  lazyConnect: true,
  retryStrategy: reconnectAfter,
  // A demoted master says so on the old connection: 1 is to connect anew, without sending the command again.
  reconnectOnError: (error: Error) => (error.message.startsWith('READONLY') ? 1 : false),
} as const;

function duplicateIoRedis(client: IoRedisLike): IoRedisLike {
  return client.duplicate(SEND_ONCE as never) as IoRedisLike;
}

function ioRedisCluster(client: IoRedisLike, mode: 'own' | 'shared'): Connection {
  if (mode === 'shared') return ioRedisConnection(client, mode, true);
  const { redisOptions } = client.options as { redisOptions?: object };
  const { lazyConnect, enableOfflineQueue } = SEND_ONCE;
  const settings = {
    lazyConnect,
    enableOfflineQueue,
    clusterRetryStrategy: reconnectAfter,
    scaleReads: 'master',
    redisOptions: { ...redisOptions, ...SEND_ONCE, retryStrategy: undefined },
  };
  const own = client.duplicate([] as never, settings as never) as IoRedisLike;
  return ioRedisConnection(own, mode, true);
}

function ioRedisConnection(
  client: IoRedisLike,
  mode: 'own' | 'shared',
  cluster: boolean,
): Connection {
  // The first attempt may fail like any other: the client goes on trying by itself.
  if (mode === 'own') client.connect().catch(() => undefined);
  return {
    cluster,
    isReady: () => client.status === 'ready',
    ready: () => once(client, 'ready'),
    send: ([name = '', ...args]) => client.call(name, ...args),
    onError: (listener) => void client.on('error', listener),
    close: () => {
      if (mode === 'own') client.disconnect();
      return Promise.resolve();
    },
  };
}

function nodeRedisConnection(given: NodeRedisLike, mode: 'own' | 'shared'): Connection {
  // Only a cluster client has no readiness of its own.
  const cluster = given.isReady === undefined;
  const settings = {
    disableOfflineQueue: true,
    socket: { reconnectStrategy: (attempt: number) => reconnectAfter(attempt + 1) },
  };
  const { options } = given as { options?: { socket?: object } };
  const overrides = cluster
    ? { defaults: settings }
    : { ...settings, socket: { ...options?.socket, ...settings.socket } };
  const client = mode === 'shared' ? given : (given.duplicate(overrides as never) as NodeRedisLike);
  let connected = mode === 'shared';
  if (mode === 'own') {
    client.connect().then(
      () => (connected = true),
      () => undefined,
    );
  }
  return {
    cluster,
    isReady: () => (cluster ? connected && client.isOpen : client.isReady === true),
    ready: () => once(client, cluster ? 'connect' : 'ready'),
    send: (command, key) =>
      cluster
        ? client.sendCommand(key as never, false as never, command as never)
        : client.sendCommand(command as never),
    onError: (listener) => void client.on('error', listener),
    close: () => {
      if (mode === 'own' && client.isOpen) client.destroy();
      return Promise.resolve();
    },
  };
}

function once(emitter: Emitter, event: string): Promise<void> {
  return new Promise((resolve) => emitter.once(event, () => resolve()));
}
