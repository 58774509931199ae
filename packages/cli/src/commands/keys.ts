import {
  addressKey,
  createLimiter,
  type Decision,
  type FileLimit,
  type Keys,
  type Limiter,
  limiterLimits,
  type LimitOptions,
  loadLimits,
  TollgateStoreError,
} from '@tollgate/core';
import type { RedisStore } from '@tollgate/core/redis';
import type { Redis } from 'ioredis';
import { printable } from '../report/printable.ts';
import { count } from '../report/words.ts';
import { UsageError } from '../usage.ts';
import { parsed } from './options.ts';

const OPTIONS = {
  redis: { type: 'string' },
  limits: { type: 'string' },
  limit: { type: 'string' },
  prefix: { type: 'string' },
  json: { type: 'boolean' },
} as const;

/** An operator waits longer than a request does. */
const DEADLINE_MS = 5_000;

/** `tollgate keys peek|reset`: returns what to print. */
export async function keysCommand([action, ...args]: readonly string[]): Promise<string> {
  if (action !== 'peek' && action !== 'reset') {
    throw new UsageError(
      `keys needs peek or reset${action === undefined ? '' : `, got "${action}"`}.`,
    );
  }
  const { values, positionals } = parsed(args, OPTIONS);
  const [key] = positionals;
  if (key === undefined || key === '' || positionals.length > 1) {
    throw new UsageError(`keys ${action} needs one key.`);
  }
  if (values.redis === undefined) throw new UsageError(`keys ${action} needs --redis <url>.`);
  const file = values.limits === undefined ? undefined : loadLimits(values.limits);
  const limits = chosen(action, file, values.limit);
  const keys = keysOf(key, limits, file ?? []);
  const errors: unknown[] = [];
  const limiter = await connected(values.redis, values.prefix, limits, errors);
  try {
    return action === 'peek'
      ? await peek(limiter, keys, errors, values.json === true)
      : await reset(limiter, keys, values.json === true);
  } finally {
    await limiter.close();
  }
}

function chosen(
  action: string,
  file: readonly FileLimit[] | undefined,
  name: string | undefined,
): LimitOptions[] {
  if (file === undefined) {
    if (action === 'peek')
      throw new UsageError('keys peek needs --limits <file>, for the policies.');
    if (name === undefined)
      throw new UsageError('keys reset needs --limits <file> or --limit <name>.');
    return [{ name }];
  }
  const all = limiterLimits(file);
  const limits = name === undefined ? all : all.filter((limit) => limit.name === name);
  if (limits.length > 0) return limits;
  throw new UsageError(
    `There is no limit "${name}" in the file; there are ${all.map((limit) => limit.name).join(', ')}.`,
  );
}

/** The key under each limit. An address is written as `clientIp()` writes it where a limit is by address. */
function keysOf(key: string, limits: readonly LimitOptions[], file: readonly FileLimit[]): Keys {
  return Object.fromEntries(
    limits.map(({ name }) => {
      const { by = 'ip' } = file.find((limit) => limit.name === name) ?? { by: 'everyone' };
      return [name, by === 'ip' ? (addressKey(key) ?? key) : key];
    }),
  );
}

async function connected(
  url: string,
  prefix: string | undefined,
  limits: readonly LimitOptions[],
  errors: unknown[],
): Promise<Limiter<RedisStore>> {
  const { redisStore } = await import('@tollgate/core/redis');
  const Client = await loadClient();
  let store: RedisStore;
  try {
    const client = new Client(url, { lazyConnect: true });
    store = redisStore(client, {
      deadlineMs: DEADLINE_MS,
      ...(prefix !== undefined && { prefix }),
    });
  } catch (error) {
    throw new UsageError(`--redis: ${(error as Error).message}`);
  }
  // A limit that answers without its store would tell an operator a tale.
  return createLimiter({
    store,
    limits: limits.map((limit) => ({ ...limit, whenStoreFails: 'deny' })),
    onStoreError: (error) => errors.push(error),
  });
}

async function loadClient(): Promise<typeof Redis> {
  try {
    return (await import('ioredis')).Redis;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new UsageError('--redis needs the package ioredis; install it: npm install ioredis');
  }
}

async function peek(
  limiter: Limiter<RedisStore>,
  keys: Keys,
  errors: readonly unknown[],
  json: boolean,
): Promise<string> {
  const decision = await limiter.peek(keys);
  if (decision.reason === 'store-unavailable') {
    throw (errors[0] as Error | undefined) ?? new TollgateStoreError('Redis does not answer', 0);
  }
  return json ? `${JSON.stringify(decision, null, 2)}\n` : peekText(decision);
}

function peekText({ verdicts }: Decision): string {
  const rows = verdicts.map((verdict) => {
    const { name, key, allowed, remaining, limit, resetAfterMs, retryAfterMs } = verdict;
    const said = allowed ? 'would be admitted' : `would be refused, retry after ${retryAfterMs} ms`;
    return `${name}  ${printable(key)}: ${count(remaining)} of ${count(limit)} left, whole after ${resetAfterMs} ms; ${said}\n`;
  });
  return rows.join('');
}

async function reset(limiter: Limiter<RedisStore>, keys: Keys, json: boolean): Promise<string> {
  await limiter.reset(keys);
  if (json) return `${JSON.stringify({ reset: keys }, null, 2)}\n`;
  return Object.entries(keys)
    .map(([name, key = '']) => `${name}  ${printable(key)}: forgotten\n`)
    .join('');
}
