import { show, TollgateConfigError } from '../errors.ts';
import type { Connection, ConnectionMode } from './connection.ts';
import { connectIoRedis, type IoRedisLike, isIoRedis, unsafeIoRedis } from './ioredis.ts';
import {
  connectNodeRedis,
  isNodeRedis,
  isNodeRedisSentinel,
  type NodeRedisLike,
  unsafeNodeRedis,
} from './node-redis.ts';

export type { Connection } from './connection.ts';

/**
 * A client of Redis or Valkey: `Redis` (also with `sentinels`) or `Cluster` of ioredis 5 and 6 and of iovalkey, or what
 * `createClient()` or `createCluster()` of node-redis 5.9 and later return. It need not be connected yet, unless it is
 * of node-redis and used with `connection: "shared"`.
 */
export type RedisClient = IoRedisLike | NodeRedisLike;

/** Clients whose settings have been complained of. */
const warned = new WeakSet<object>();

/**
 * Binds a client. `own` duplicates it once, with settings under which no command is queued or sent again; the client
 * given is left as it is. `shared` uses it as it is, and warns once of settings under which a command may be.
 *
 * @throws TollgateConfigError for a client that is not known, or that cannot be made safe.
 */
export function connect(client: unknown, mode: ConnectionMode, deadlineMs: number): Connection {
  if (isNodeRedisSentinel(client)) {
    throw new TollgateConfigError(
      'client',
      'createSentinel() of node-redis sends commands again whose connection broke, and would charge twice; pass a client of ioredis or iovalkey with `sentinels` and `name`',
    );
  }
  if (isIoRedis(client)) {
    const connection = connectIoRedis(client, mode);
    if (mode === 'shared') warn(client, unsafeIoRedis(client));
    return connection;
  }
  if (isNodeRedis(client)) {
    const connection = connectNodeRedis(client, mode, deadlineMs);
    if (mode === 'shared') warn(client, unsafeNodeRedis(client));
    return connection;
  }
  throw new TollgateConfigError(
    'client',
    `expected a client of ioredis, iovalkey or node-redis, got ${show(client)}`,
  );
}

function warn(client: object, unsafe: readonly string[]): void {
  if (unsafe.length === 0 || warned.has(client)) return;
  warned.add(client);
  process.emitWarning(
    `The client that is shared with redisStore() may charge late or twice when its connection breaks. Leave out connection: "shared", or mend its settings: ${unsafe.join('. ')}.`,
    { type: 'TollgateWarning', code: 'TOLLGATE_UNSAFE_CLIENT' },
  );
}
