import { show, TollgateConfigError } from '../errors.ts';
import {
  type Connection,
  type ConnectionMode,
  type Emitter,
  FIRST_KEY,
  isReadOnly,
  listen,
  reconnectAfter,
  Told,
} from './connection.ts';

/** node-redis: what `createClient()` and `createCluster()` return. */
export interface NodeRedisLike extends Emitter {
  readonly isOpen: boolean;
  readonly isReady?: boolean;
  /** Of a cluster only. */
  readonly masters?: readonly unknown[];
  readonly options?: object | undefined;
  duplicate(overrides?: never): unknown;
  sendCommand(...args: never[]): Promise<unknown>;
  connect(): Promise<unknown>;
  destroy(): unknown;
}

/** The settings that are read here. */
interface Settings {
  readonly keyPrefix?: unknown;
  readonly socket?: object;
  readonly disableOfflineQueue?: boolean;
  readonly commandsQueueMaxLength?: number;
  readonly defaults?: Settings;
}

/** Settings under which a command is sent once and at once, or refused. */
const SEND_ONCE = {
  disableOfflineQueue: true,
  commandsQueueMaxLength: undefined,
  // What is announced to be moved would keep commands until it has.
  maintNotifications: 'disabled',
  readonly: false,
  // A cache is the given client's: it would be emptied with this connection.
  clientSideCache: undefined,
  emitInvalidate: false,
} as const;

const SEND_ONCE_CLUSTER = {
  useReplicas: false,
  minimizeConnections: false,
  maxCommandRedirections: 8,
  // A node that is gone may have been replaced. The default is to look after 5 s.
  topologyRefreshOnReconnectionAttemptStrategy: 500,
  clientSideCache: undefined,
} as const;

export function isNodeRedis(client: unknown): client is NodeRedisLike {
  const { sendCommand, duplicate, isOpen } = (client ?? {}) as Partial<NodeRedisLike>;
  return (
    typeof sendCommand === 'function' &&
    typeof duplicate === 'function' &&
    typeof isOpen === 'boolean'
  );
}

/** What `createSentinel()` returns: it sends commands again whose connection broke. */
export function isNodeRedisSentinel(client: unknown): boolean {
  return (
    typeof (client as { getMasterNode?: unknown } | undefined | null)?.getMasterNode === 'function'
  );
}

/** Settings of a command whose answer is bytes: `$` is what the protocol marks a string with. */
const BYTES = { typeMapping: { ['$'.charCodeAt(0)]: Buffer } } as const;

type Command = readonly (string | Buffer)[];

/** A client in use, and how to be done with it. */
interface Session {
  readonly client: NodeRedisLike;
  end(): void;
}

export function connectNodeRedis(
  given: NodeRedisLike,
  mode: ConnectionMode,
  deadlineMs: number,
): Connection {
  const keyPrefix = keyPrefixOf(settingsOf(given) ?? {});
  const cluster = given.masters !== undefined;
  const told = new Told();
  const begin = (): Session => {
    if (mode === 'shared') return share(given, cluster, told);
    return cluster ? openCluster(given, told) : openClient(given, told);
  };
  let session = begin();
  let closed = false;
  // A client that is half connected cannot be ended and connected again, so another takes its place.
  const reconnect = (): void => {
    if (mode === 'shared' || closed) return;
    session.end();
    session = begin();
  };
  const send = async (command: Command, options?: object): Promise<unknown> => {
    const { client } = session;
    try {
      return await client.sendCommand(command as never, options as never);
    } catch (error) {
      if (isReadOnly(error) && client === session.client) reconnect();
      throw error;
    }
  };
  return {
    cluster,
    keyPrefix,
    isReady: () => isReady(session.client),
    ready: () => told.nextReady(),
    send: (command, key) =>
      cluster ? sendTo(session.client, command, key, deadlineMs) : send(command),
    evaluate: (name, args) =>
      cluster
        ? sendTo(session.client, [name, ...args], args[FIRST_KEY] as string, deadlineMs, BYTES)
        : send([name, ...args], BYTES),
    onError: (listener) => told.onError(listener),
    reconnect,
    close: () => {
      closed = true;
      session.end();
      return Promise.resolve();
    },
  };
}

function isReady({ isReady, isOpen, masters }: NodeRedisLike): boolean {
  // A cluster of redis 5 only says whether it was told to connect.
  return isReady ?? (isOpen && masters !== undefined && masters.length > 0);
}

/** Sends a command to the node of a key. */
async function sendTo(
  client: NodeRedisLike,
  command: Command,
  key: string | undefined,
  deadlineMs: number,
  settings?: object,
): Promise<unknown> {
  // Waiting for a node or for the cluster's new layout, a command would be sent when its caller has long been answered.
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), deadlineMs);
  const options = { ...settings, abortSignal: late.signal };
  try {
    return await client.sendCommand(
      key as never,
      false as never,
      command as never,
      options as never,
    );
  } finally {
    clearTimeout(timer);
  }
}

function share(client: NodeRedisLike, cluster: boolean, told: Told): Session {
  const end = listen(client, { [cluster ? 'connect' : 'ready']: told.ready, error: told.error });
  return { client, end };
}

function openClient(given: NodeRedisLike, told: Told): Session {
  let ended = false;
  let hasSocket = false;
  const { socket } = settingsOf(given) ?? {};
  const client = given.duplicate({
    ...SEND_ONCE,
    commandOptions: {},
    socket: {
      ...socket,
      reconnectStrategy: (attempt: number) =>
        ended ? new Error('the connection was given up') : reconnectAfter(attempt + 1),
    },
  } as never) as NodeRedisLike;
  listen(client, {
    // Only a client that has a socket can be ended; another one ends when it has, or when it would try again.
    connect: () => {
      hasSocket = true;
      if (ended) client.destroy();
    },
    reconnecting: () => (hasSocket = false),
    ready: () => ended || told.ready(),
    error: (error) => ended || told.error(error),
  });
  // It goes on trying until it is ended. What fails is told as an error of the connection.
  client.connect().catch(() => undefined);
  const end = (): void => {
    ended = true;
    if (hasSocket && client.isOpen) client.destroy();
  };
  return { client, end };
}

function openCluster(given: NodeRedisLike, told: Told): Session {
  const client = duplicateCluster(given);
  let ended = false;
  let attempts = 0;
  let pause: NodeJS.Timeout | undefined;
  listen(client, { connect: told.ready, error: told.error });
  // Unlike its nodes, a cluster tries once.
  const open = (): void =>
    void client.connect().then(
      () => ended && client.destroy(),
      () => {
        if (!ended) pause = setTimeout(open, reconnectAfter(++attempts));
      },
    );
  open();
  const end = (): void => {
    ended = true;
    clearTimeout(pause);
    if (client.isOpen) client.destroy();
  };
  return { client, end };
}

function duplicateCluster(given: NodeRedisLike): NodeRedisLike {
  const settings = settingsOf(given);
  if (settings === undefined) {
    throw new TollgateConfigError(
      'client',
      'this version of node-redis hides the settings of a cluster, so that it cannot be duplicated with safe ones; take redis 5.9 or later, or connection: "shared"',
    );
  }
  const { defaults } = settings;
  const socket = {
    ...defaults?.socket,
    reconnectStrategy: (attempt: number) => reconnectAfter(attempt + 1),
  };
  return given.duplicate({
    ...SEND_ONCE_CLUSTER,
    commandOptions: {},
    defaults: { ...defaults, ...SEND_ONCE, socket },
  } as never) as NodeRedisLike;
}

function settingsOf(client: NodeRedisLike): Settings | undefined {
  return client.masters === undefined
    ? client.options
    : (client as { readonly _options?: Settings })._options;
}

function keyPrefixOf({ keyPrefix }: Settings): string {
  if (keyPrefix === undefined) return '';
  if (typeof keyPrefix === 'string') return keyPrefix;
  throw new TollgateConfigError(
    'client',
    `expected its keyPrefix to be a text, got ${show(keyPrefix)}`,
  );
}

/** Says of each setting that may charge late, or not at all, what it does and what mends it. */
export function unsafeNodeRedis(client: NodeRedisLike): string[] {
  const settings = settingsOf(client) ?? {};
  const isCluster = client.masters !== undefined;
  const node = isCluster ? (settings.defaults ?? {}) : settings;
  const where = isCluster ? 'defaults.' : '';
  const unsafe: string[] = [];
  if (node.disableOfflineQueue !== true) {
    unsafe.push(
      `without ${where}disableOfflineQueue commands are kept while there is no connection and sent when their callers have long been answered; set it to true`,
    );
  }
  if (node.commandsQueueMaxLength !== undefined) {
    unsafe.push(
      `${where}commandsQueueMaxLength: ${node.commandsQueueMaxLength} refuses charges when your own commands fill the queue; leave it out`,
    );
  }
  return unsafe;
}
