import { randomUUID } from 'node:crypto';
import { TWINS } from '../algorithms/index.ts';
import type { Verdict } from '../decision.ts';
import { show, TollgateConfigError } from '../errors.ts';
import { refuseUnknown } from '../limits.ts';
import type { Answer, Charge, Correction, Health, Mode, Store } from '../store.ts';
import { Batches, type Item, type Reply } from './batch.ts';
import { connect, type Connection, type RedisClient } from './clients.ts';
import { NEVER, OPS, SCRIPT, SHA } from './engine.ts';
import { type BreakerOptions, Guard } from './guard.ts';
import { ALL_TAGS, redisKey } from './keys.ts';

export interface RedisStoreOptions {
  /** Default `"tollgate:"`. */
  readonly prefix?: string;
  /** How long a call may take, in milliseconds; default 100. */
  readonly deadlineMs?: number;
  readonly breaker?: BreakerOptions;
  /** Puts the keys of a request into one slot of a cluster, and so into one call. */
  readonly hashTag?: (keys: Readonly<Record<string, string>>) => string;
  /** Whether calls made while another is under way go as one; default true. */
  readonly batch?: boolean;
  /** `"own"` duplicates the client once, with safe settings; `"shared"` uses it as it is. Default `"own"`. */
  readonly connection?: 'own' | 'shared';
  /** For tests: integer microseconds since the epoch. Default Redis' own clock. */
  readonly clock?: () => number;
}

const OPTIONS = [
  'prefix',
  'deadlineMs',
  'breaker',
  'hashTag',
  'batch',
  'connection',
  'clock',
] as const;

/** Calls that may be under way at once, each of up to a hundred decisions; beyond that the failure policy answers. */
const MOST_CALLS = 256;

const PLACES = new Map<string, number>(TWINS.map(([tag], index) => [tag, index + 1]));

/**
 * State in Redis, shared by all processes. Every call is one script call for all its charges; those made meanwhile go
 * together as the next one.
 */
export class RedisStore implements Store<true> {
  readonly async = true;
  private readonly connection: Connection;
  private readonly guard: Guard;
  private readonly batches: Batches;
  private readonly options: RedisStoreOptions;
  private readonly prefix: string;
  /** Names this process's slots apart from all others'. */
  private readonly owner = randomUUID();
  private nextSlot = 1;

  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    check(options);
    const { prefix = 'tollgate:', deadlineMs = 100, breaker = {}, batch = true } = options;
    this.options = options;
    this.prefix = prefix;
    this.connection = connect(client, options.connection ?? 'own');
    const probe = `${prefix}{}probe`;
    this.guard = new Guard(
      this.connection,
      // A write, since a master that was demoted still answers a PING.
      () => this.connection.send(['SET', probe, '1', 'PX', '1000'], probe),
      deadlineMs,
      MOST_CALLS,
      breaker,
    );
    this.batches = new Batches(
      (keys, args, madeAt) => this.guard.call(() => this.evaluate(keys, args), madeAt),
      () => this.guard.idle,
      batch,
    );
  }

  health(): Health {
    return this.guard.health();
  }

  async decide(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    return this.batches.run(this.decision(charges, mode));
  }

  async correct(corrections: readonly Correction[]): Promise<void> {
    await this.each(OPS.correct, corrections);
  }

  async refund(charges: readonly Charge[]): Promise<void> {
    await this.each(OPS.refund, charges.map(atCost));
  }

  async renew(charges: readonly Charge[]): Promise<boolean[]> {
    return this.batches.run({
      keys: this.keysOf(charges),
      write: (places, args) => this.write(OPS.renew, charges.map(atCost), places, args),
      read: (reply) => charges.map(() => reply.next() === 1),
    });
  }

  async reset(keys: readonly Pick<Charge, 'name' | 'key'>[]): Promise<void> {
    const madeAt = performance.now();
    const tag = this.tagOf(keys);
    const names = keys.flatMap((key) =>
      ALL_TAGS.map((algorithm) => redisKey(this.prefix, tag, algorithm, key)),
    );
    await this.guard.call(() => this.connection.send(['DEL', ...names], names[0]), madeAt);
  }

  async close(): Promise<void> {
    this.guard.close();
    await this.connection.close();
  }

  private async each(op: number, corrections: readonly Correction[]): Promise<void> {
    await this.batches.run({
      keys: this.keysOf(corrections.map(({ charge }) => charge)),
      write: (places, args) => this.write(op, corrections, places, args),
      read: () => undefined,
    });
  }

  private decision(charges: readonly Charge[], mode: Mode): Item<Answer> {
    return {
      keys: this.keysOf(charges),
      write: (places, args) => this.write(OPS[mode], charges.map(atCost), places, args),
      read: (reply) => {
        const admitted = reply.next() === 1;
        const delay = reply.next();
        const verdicts = charges.map((charge) => readVerdict(charge, reply));
        return { admitted, delay, at: reply.at, verdicts };
      },
    };
  }

  private write(
    op: number,
    items: readonly Correction[],
    places: readonly number[],
    args: string[],
  ): void {
    args.push(`${op}`, `${items.length}`);
    for (let i = 0; i < items.length; i++) {
      const { charge, units } = items[i] as Correction;
      const { rule, key, shadow, receipt = [] } = charge;
      args.push(
        `${places[i]}`,
        `${PLACES.get(rule.policy.algorithm)}`,
        `${rule.offset(key)}`,
        `${units}`,
        shadow ? '1' : '0',
        rule.holdsSlots ? this.slotName(charge) : `${chargeName()}`,
        `${receipt.length}`,
      );
      for (const number of receipt) args.push(`${number}`);
      for (const number of rule.numbers) args.push(`${number}`);
    }
  }

  private readonly slotNames = new WeakMap<Charge, string>();

  private slotName(charge: Charge): string {
    const known = this.slotNames.get(charge);
    if (known !== undefined) return known;
    const name = `${this.owner}:${this.nextSlot++}`;
    this.slotNames.set(charge, name);
    return name;
  }

  private keysOf(charges: readonly Charge[]): string[] {
    const tag = this.tagOf(charges);
    return charges.map((charge) =>
      redisKey(this.prefix, tag, charge.rule.policy.algorithm, charge),
    );
  }

  private tagOf(keys: readonly Pick<Charge, 'name' | 'key'>[]): string {
    const { hashTag } = this.options;
    if (hashTag === undefined) return '';
    const tag = hashTag(Object.fromEntries(keys.map(({ name, key }) => [name, key])));
    if (typeof tag === 'string' && tag !== '' && !tag.includes('}')) return tag;
    throw new TollgateConfigError(
      'hashTag',
      `expected it to return a text without "}", got ${show(tag)}`,
    );
  }

  private async evaluate(keys: readonly string[], args: readonly string[]): Promise<number[]> {
    const { clock } = this.options;
    const rest = [`${keys.length}`, ...keys, clock === undefined ? '' : `${clock()}`, ...args];
    try {
      return (await this.connection.send(['EVALSHA', SHA, ...rest], keys[0])) as number[];
    } catch (error) {
      // Only this says that nothing was carried out.
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return (await this.connection.send(['EVAL', SCRIPT, ...rest], keys[0])) as number[];
    }
  }
}

/** Names a charge apart from the few others of its key that may still be settled. */
function chargeName(): number {
  return 1 + Math.floor(Math.random() * 2 ** 52);
}

function atCost(charge: Charge): Correction {
  return { charge, units: charge.cost };
}

function readVerdict(charge: Charge, reply: Reply): Verdict {
  const { name, key, rule, shadow, cost } = charge;
  const wait = duration(reply.next());
  const remaining = reply.next();
  const nextAfter = duration(reply.next());
  const resetAfter = duration(reply.next());
  const numbers = reply.next();
  if (numbers > 0) charge.receipt = Array.from({ length: numbers }, () => reply.next());
  const allowed = wait === 0;
  return {
    name,
    key,
    policy: rule.policy,
    allowed,
    shadow,
    reason: allowed ? 'ok' : rule.refusal,
    source: 'store',
    cost,
    limit: rule.quota,
    remaining,
    nextAfterMs: nextAfter / 1_000,
    resetAfterMs: resetAfter / 1_000,
    retryAfterMs: wait / 1_000,
  };
}

function duration(number: number): number {
  return number === NEVER ? Infinity : number;
}

function check(options: RedisStoreOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected the store's options, got ${show(options)}`);
  }
  refuseUnknown(options, OPTIONS, '');
  const { prefix, deadlineMs, hashTag, connection, clock } = options;
  if (prefix !== undefined && typeof prefix !== 'string') {
    throw new TollgateConfigError('prefix', `expected a text, got ${show(prefix)}`);
  }
  if (deadlineMs !== undefined && !(typeof deadlineMs === 'number' && deadlineMs > 0)) {
    throw new TollgateConfigError(
      'deadlineMs',
      `expected a number of milliseconds above 0, got ${show(deadlineMs)}`,
    );
  }
  for (const [name, value] of Object.entries({ hashTag, clock })) {
    if (value !== undefined && typeof value !== 'function') {
      throw new TollgateConfigError(name, `expected a function, got ${show(value)}`);
    }
  }
  if (connection !== undefined && connection !== 'own' && connection !== 'shared') {
    throw new TollgateConfigError(
      'connection',
      `expected "own" or "shared", got ${show(connection)}`,
    );
  }
}

/**
 * A store in Redis, or Valkey: one budget for all processes.
 *
 * @param client of ioredis, iovalkey or node-redis. By default it is duplicated, and otherwise left alone.
 * @throws TollgateConfigError for a wrong option, or a client that is not known.
 */
export function redisStore(client: RedisClient, options?: RedisStoreOptions): RedisStore {
  return new RedisStore(client, options);
}
