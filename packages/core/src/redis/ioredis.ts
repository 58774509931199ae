import { show, TollgateConfigError } from '../errors.ts';
import {
  type Connection,
  type ConnectionMode,
  type Emitter,
  isReadOnly,
  listen,
  reconnectAfter,
  Told,
} from './connection.ts';

/** ioredis and iovalkey: `Redis`, with Sentinel too, and `Cluster`. */
export interface IoRedisLike extends Emitter {
  readonly status: string;
  readonly isCluster?: boolean;
  readonly options: object;
  duplicate(...args: never[]): unknown;
  call(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
}

/** Methods that all of them have, and no types: each command has another that answers with bytes. */
interface Evaluating {
  evalBuffer(...args: (string | Buffer)[]): Promise<unknown>;
  evalshaBuffer(...args: (string | Buffer)[]): Promise<unknown>;
}

/** The settings that are read here. */
interface Settings {
  readonly keyPrefix?: unknown;
  readonly enableOfflineQueue?: boolean;
  readonly enableAutoPipelining?: boolean;
  readonly autoResendUnfulfilledCommands?: boolean;
  readonly maxRetriesPerRequest?: number | null;
  readonly role?: string;
  readonly retryDelayOnFailover?: number;
  readonly clusterNodeRetryStrategy?: unknown;
  readonly redisOptions?: Settings;
}

/** Settings under which a command is sent once and at once, or refused. */
const SEND_ONCE = {
  lazyConnect: true,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // A command without an answer is rejected when its connection ends, so that nothing is left to be sent again.
  maxRetriesPerRequest: 0,
  retryStrategy: reconnectAfter,
  // 1 is to connect anew, without sending the command again.
  reconnectOnError: (error: Error) => (isReadOnly(error) ? 1 : false),
  // Connections that are given up are not waited for.
  disconnectTimeout: 100,
  sentinelRetryStrategy: reconnectAfter,
  sentinelCommandTimeout: 1_000,
  // The Sentinels tell of a new master; the old one may go on as a master for ten seconds, and what it takes is lost.
  failoverDetector: true,
  role: 'master',
  readOnly: false,
  monitor: false,
  // The store puts it before its keys itself, so that it knows their slots.
  keyPrefix: '',
} as const;

/** The same for a cluster, whose nodes it connects by itself. */
const SEND_ONCE_CLUSTER = {
  lazyConnect: true,
  // Else it refuses what is for a node that it is still connecting; with none connected the guard refuses first.
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  scaleReads: 'master',
  clusterRetryStrategy: reconnectAfter,
  // 0: a command whose connection ended may have been carried out, and is not sent again.
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
  // Redirections, after which nothing was carried out, are followed within the deadline.
  retryDelayOnTryAgain: 10,
  maxRedirections: 8,
  keyPrefix: '',
} as const;

export function isIoRedis(client: unknown): client is IoRedisLike {
  const { status, call, duplicate } = (client ?? {}) as Partial<IoRedisLike>;
  return (
    typeof status === 'string' && typeof call === 'function' && typeof duplicate === 'function'
  );
}

export function connectIoRedis(given: IoRedisLike, mode: ConnectionMode): Connection {
  const cluster = given.isCluster === true;
  const prefix = keyPrefixOf(given.options);
  if (cluster && mode === 'shared' && prefix !== '') {
    throw new TollgateConfigError(
      'client',
      'the keyPrefix of a cluster client moves keys to other slots; leave out connection: "shared", or pass a client without keyPrefix and set the prefix of redisStore() instead',
    );
  }
  const own = mode === 'own';
  const client = own ? duplicate(given, cluster) : given;
  const told = new Told();
  let closed = false;
  // That it fails is told as an error of the connection, and the client goes on trying by itself.
  const open = (): void => void client.connect().catch(() => undefined);
  const unlisten = listen(client, {
    ready: told.ready,
    error: told.error,
    // It gives up for good when its way to a server, such as a Sentinel, fails while being made.
    ...(own && {
      end: () => {
        if (!closed) setTimeout(() => closed || open(), reconnectAfter(Infinity)).unref();
      },
    }),
  });
  if (own) open();
  return {
    cluster,
    keyPrefix: own ? prefix : '',
    isReady: () => client.status === 'ready',
    ready: () => {
      // A lazy client connects for its first command.
      if (client.status === 'wait') open();
      return told.nextReady();
    },
    // Not all of them know the keys of commands in capitals, by which they choose the node of a cluster.
    send: ([name = '', ...args]) => client.call(name.toLowerCase(), ...args),
    evaluate: (name, args) => {
      const evaluating = client as unknown as Evaluating;
      return name === 'EVAL' ? evaluating.evalBuffer(...args) : evaluating.evalshaBuffer(...args);
    },
    onError: (listener) => told.onError(listener),
    reconnect: () => {
      // A cluster that looks for its nodes has a time limit of its own.
      const states = cluster ? ['connect', 'ready'] : ['connecting', 'connect', 'ready'];
      if (own && states.includes(client.status)) client.disconnect(true);
    },
    close: () => {
      closed = true;
      if (own) client.disconnect();
      else unlisten();
      return Promise.resolve();
    },
  };
}

function duplicate(client: IoRedisLike, cluster: boolean): IoRedisLike {
  if (!cluster) return client.duplicate(SEND_ONCE as never) as IoRedisLike;
  const { redisOptions } = client.options as Settings;
  const settings = {
    ...SEND_ONCE_CLUSTER,
    // Whether a node is connected again is the cluster's to say.
    redisOptions: { ...redisOptions, ...SEND_ONCE, retryStrategy: undefined },
  };
  return client.duplicate([] as never, settings as never) as IoRedisLike;
}

function keyPrefixOf(settings: Settings): string {
  const { keyPrefix } = settings;
  if (keyPrefix === undefined || keyPrefix === null) return '';
  if (typeof keyPrefix === 'string') return keyPrefix;
  throw new TollgateConfigError(
    'client',
    `expected its keyPrefix to be a text, got ${show(keyPrefix)}`,
  );
}

/** Says of each setting that may charge late or twice what it does and what mends it. */
export function unsafeIoRedis({ options, isCluster }: IoRedisLike): string[] {
  const settings: Settings = options;
  const node = isCluster === true ? (settings.redisOptions ?? {}) : settings;
  const reconnects = isCluster !== true || typeof settings.clusterNodeRetryStrategy === 'function';
  const { maxRetriesPerRequest = 20 } = node;
  const unsafe: string[] = [];
  if (settings.enableOfflineQueue !== false) {
    unsafe.push(
      'enableOfflineQueue keeps commands while there is no connection and sends them when their callers have long been answered; set it to false',
    );
  }
  if (reconnects && node.autoResendUnfulfilledCommands !== false && maxRetriesPerRequest !== 0) {
    unsafe.push(
      `maxRetriesPerRequest: ${maxRetriesPerRequest} with autoResendUnfulfilledCommands sends commands again that may have been carried out; set maxRetriesPerRequest to 0`,
    );
  }
  if (isCluster === true && (settings.retryDelayOnFailover ?? 100) > 0) {
    unsafe.push(
      'retryDelayOnFailover sends commands again that may have been carried out; set it to 0',
    );
  }
  if (isCluster === true && settings.enableAutoPipelining === true) {
    unsafe.push(
      'enableAutoPipelining sends all commands of a pipeline again when one was redirected; set it to false',
    );
  }
  if (settings.role === 'slave') {
    unsafe.push(
      'role: "slave" connects to replicas, which refuse every charge; set it to "master"',
    );
  }
  return unsafe;
}
