import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Leasing } from '../lease.ts';
import type { RefusedKey, Tally } from '../refusals/refused-key.ts';
import type { Answer, Charge, Correction, Health, Mode, Store } from '../store.ts';
import { type Batch, Batches } from './batch.ts';
import { asMade, correctionAsMade, ofLimits } from './charge-ahead.ts';
import { connect, type Connection, type RedisClient } from './clients.ts';
import { SCRIPT, SHA } from './engine.ts';
import { FleetList } from './fleet-list.ts';
import { Guard } from './guard.ts';
import { Items } from './items.ts';
import { KeyNames } from './keys.ts';
import { isLeased, LeasedDecisions } from './leased-decisions.ts';
import { Leases } from './leases.ts';
import { checkOptions, type RedisStoreOptions } from './options.ts';
import { type Queue, SlotQueues } from './slot-queues.ts';
import type { ScriptCall } from './script-call.ts';
import { placesBySlot } from './slots.ts';
import { Spread } from './spread.ts';

export type { RedisStoreOptions } from './options.ts';

/** Calls that may be under way at once, each of up to a hundred decisions; beyond that the failure policy answers. */
const MOST_CALLS = 256;
/** The same on a cluster, where a call is of one slot, and so mostly of one decision. */
const MOST_CALLS_ON_CLUSTER = 4_096;
/** Charges that one script call renews or corrects at most. */
const MOST_CHANGES = 64;
/** How long to wait for a slot that is being moved, in milliseconds. */
const TRY_AGAIN_MS = 5;

/**
 * State in Redis, shared by all processes. Every call is one script call for all its charges; those made meanwhile go
 * together as the next one. On a cluster it is one script call per slot; see `Spread`.
 */
export class RedisStore implements Store<true> {
  readonly async = true;
  readonly name: string;
  private readonly connection: Connection;
  private readonly guard: Guard;
  private readonly queue: Queue;
  private readonly spread: Spread | undefined;
  private readonly options: RedisStoreOptions;
  private readonly deadlineMs: number;
  private readonly names: KeyNames;
  private readonly items: Items;
  private readonly leases: Leases;
  private readonly leased: LeasedDecisions;
  private readonly fleet: FleetList;

  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    checkOptions(options);
    const { prefix = 'tollgate:', deadlineMs = 100, breaker = {}, batch = true } = options;
    this.options = options;
    this.deadlineMs = deadlineMs;
    this.connection = connect(client, options.connection ?? 'own', deadlineMs);
    const { cluster, keyPrefix } = this.connection;
    this.name = `${keyPrefix}${prefix}`;
    this.names = new KeyNames(this.name, options.hashTag, cluster);
    this.items = new Items((key) => this.names.banOf(key));
    this.guard = new Guard(
      this.name,
      this.connection,
      () => this.probe(this.name),
      deadlineMs,
      cluster ? MOST_CALLS_ON_CLUSTER : MOST_CALLS,
      breaker,
    );
    const open = (isIdle: () => boolean): Batches =>
      new Batches((made) => this.send(made), isIdle, batch);
    this.queue = cluster ? new SlotQueues(open) : open(() => this.guard.idle);
    this.fleet = new FleetList(this.name, this.connection, this.guard, options.clock);
    this.spread = cluster ? new Spread(this.queue, this.items, deadlineMs) : undefined;
    const { queue, items, names, guard } = this;
    const clock = options.clock ?? ((): number => Math.floor(performance.now() * 1_000));
    this.leases = new Leases({ queue, items, names, guard, clock });
    this.leased = new LeasedDecisions(this.leases, {
      decide: async (charges, mode) => {
        const made = charges.map(asMade);
        return ofLimits(await this.decideInRedis(made, this.names.of(charges), mode), charges);
      },
      correct: (corrections) => this.correct(corrections),
    });
  }

  health(): Health {
    return this.guard.health();
  }

  decide(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    const keys = this.names.of(charges);
    if (isLeased(charges)) return this.leased.decide(charges, mode);
    return this.decideInRedis(charges, keys, mode);
  }

  decideAtOnce(charges: readonly Charge[], mode: Mode): Answer | undefined {
    return this.leased.decideAtOnce(charges, mode);
  }

  returnLeases(limits: readonly Leasing[]): Promise<void> {
    return this.leases.return(limits);
  }

  private decideInRedis(
    charges: readonly Charge[],
    keys: readonly string[],
    mode: Mode,
  ): Promise<Answer> {
    const { refusal } = this.guard;
    if (refusal !== undefined) return Promise.reject(refusal);
    return this.spread === undefined
      ? this.queue.run(this.items.decision(charges, keys, mode))
      : this.spread.decide(charges, keys, mode);
  }

  correct(all: readonly Correction[]): Promise<void> {
    const corrections = this.leases.correct(all);
    const names = this.names.whereMade(corrections.map(({ charge }) => charge));
    return this.inParts(corrections.map(correctionAsMade), names, (part, keys) =>
      this.queue.run(this.items.corrections(part, keys)),
    );
  }

  refund(charges: readonly Charge[]): Promise<void> {
    this.leases.forgive(charges);
    return this.inParts(charges.map(asMade), this.names.of(charges), (part, keys) =>
      this.queue.run(this.items.refund(part, keys)),
    );
  }

  async renew(charges: readonly Charge[]): Promise<boolean[]> {
    const held: boolean[] = [];
    await this.inParts(charges, this.names.whereMade(charges), async (part, keys, places) => {
      const answers = await this.queue.run(this.items.renewal(part, keys));
      for (const [index, place] of places.entries()) held[place] = answers[index] === true;
    });
    return held;
  }

  async ban(subjects: readonly Pick<Charge, 'name' | 'key'>[], length: number): Promise<void> {
    const keys = this.names.ofBans(subjects);
    this.leases.surrender(subjects);
    await this.inParts(keys, keys, (part) => this.queue.run(this.items.ban(part, length)));
  }

  unban(subjects: readonly Pick<Charge, 'name' | 'key'>[]): Promise<void> {
    this.leases.forgive(subjects);
    return this.forget(this.names.ofBans(subjects));
  }

  reset(subjects: readonly Pick<Charge, 'name' | 'key'>[]): Promise<void> {
    this.leases.drop(subjects);
    return this.forget(this.names.ofAll(subjects));
  }

  tally(refusals: readonly Tally[]): Promise<void> {
    return this.fleet.add(refusals);
  }

  mostRefused(
    names: readonly string[] | undefined,
    count: number,
    hours: number,
  ): Promise<readonly RefusedKey[]> {
    return this.fleet.most(names, count, hours);
  }

  private forget(keys: readonly string[]): Promise<void> {
    const madeAt = performance.now();
    return this.inParts(keys, keys, async (part) => {
      await this.guard.call(() => this.connection.send(['DEL', ...part], part[0]), madeAt);
    });
  }

  async close(): Promise<void> {
    this.guard.close();
    await this.connection.close();
  }

  /** Does things whose keys are `keys` in parts that one call may be of; they need not all succeed or fail. */
  private async inParts<T>(
    things: readonly T[],
    keys: readonly string[],
    run: (part: T[], keys: string[], places: readonly number[]) => Promise<void>,
  ): Promise<void> {
    const parts: Promise<void>[] = [];
    for (const group of this.connection.cluster ? placesBySlot(keys) : [[...keys.keys()]]) {
      for (let from = 0; from < group.length; from += MOST_CHANGES) {
        const places = group.slice(from, from + MOST_CHANGES);
        const part = places.map((place) => things[place] as T);
        const names = places.map((place) => keys[place] as string);
        parts.push(run(part, names, places));
      }
    }
    await Promise.all(parts);
  }

  /** A write, since a master that was demoted still answers a PING; on a cluster to another slot each time. */
  private probe(prefix: string): Promise<unknown> {
    const turn = this.connection.cluster ? Math.floor(Math.random() * 1_000) : '';
    const key = `${prefix}{}probe${turn}`;
    return this.connection.send(['SET', key, '1', 'PX', '1000'], key);
  }

  private send(batch: Batch): void {
    const { madeAt } = batch;
    this.guard
      .call(() => this.evaluate(batch, madeAt), madeAt)
      .then(
        (answer) => batch.answer(answer),
        (error) => batch.fail(error),
      );
  }

  private evaluate(batch: Batch, madeAt: number): Promise<unknown> {
    const call = batch.write(true);
    return this.run(call, madeAt).catch((error: unknown) =>
      this.evaluateAgain(batch, madeAt, error),
    );
  }

  /**
   * While a slot moves to another node, a call is answered only if all of its keys are on one of the two: then it is
   * tried again without the keys of bans, most of which are nowhere. Bans of that slot do not hold then.
   */
  private async evaluateAgain(batch: Batch, madeAt: number, error: unknown): Promise<unknown> {
    for (let failure = error, tries = 0; ; tries++) {
      if (!says(REDIRECTION, failure) || this.isLate(madeAt - TRY_AGAIN_MS)) throw failure;
      if (tries > 0) await sleep(TRY_AGAIN_MS);
      try {
        return await this.run(batch.write(false), madeAt);
      } catch (again) {
        failure = again;
      }
    }
  }

  /** Runs the script. */
  private run(call: ScriptCall, madeAt: number): Promise<unknown> {
    const clock = this.options.clock?.();
    return this.connection.evaluate('EVALSHA', call.args(SHA, clock)).catch((error: unknown) => {
      // Only this says that nothing was carried out. Nobody would know of what came too late.
      if (!says(NO_SCRIPT, error) || this.isLate(madeAt)) throw error;
      return this.connection.evaluate('EVAL', call.args(SCRIPT, clock));
    });
  }

  private isLate(madeAt: number): boolean {
    return performance.now() - madeAt >= this.deadlineMs;
  }
}

/** Since the key's slot is elsewhere, or is being moved and only some of the keys were. */
const REDIRECTION = said('TRYAGAIN|ASK|MOVED');
const NO_SCRIPT = said('NOSCRIPT');

/**
 * What a node says with one of these codes, each of which means that nothing was carried out. ioredis may have followed
 * redirections for a while before, and then tells of the last answer in its own words.
 */
function said(codes: string): RegExp {
  return new RegExp(`^(?:Too many Cluster redirections\\. Last error: \\w*Error: )?(?:${codes}) `);
}

function says(code: RegExp, error: unknown): boolean {
  return error instanceof Error && code.test(error.message);
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
