import { mostRefused } from '../refusals/listing.ts';
import { HOUR_MS, HOURS_KEPT } from '../refusals/recent.ts';
import type { KeyTally, RefusedKey, Tally } from '../refusals/refused-key.ts';
import { TollgateStoreError } from '../errors.ts';
import type { Connection } from './connection.ts';
import { ADD, NAME } from './fleet-scripts.ts';
import type { Guard } from './guard.ts';
import { placesBySlot } from './slots.ts';

/** What all processes refused, by limit and hour, in bounded space. On a cluster each limit is wherever its slot is. */
export class FleetList {
  private readonly prefix: string;
  private readonly connection: Connection;
  private readonly guard: Guard;
  private readonly clock: (() => number) | undefined;
  /** Which names this process has noted in which hour. */
  private readonly noted = new Map<string, number>();

  /** @param clock for tests: integer microseconds since the epoch. */
  constructor(
    prefix: string,
    connection: Connection,
    guard: Guard,
    clock: (() => number) | undefined,
  ) {
    this.prefix = `${prefix}{}1#`;
    this.connection = connection;
    this.guard = guard;
    this.clock = clock;
  }

  async add(tallies: readonly Tally[]): Promise<void> {
    const hours = tallies.map(({ keys }) =>
      Math.floor(keys.reduce((latest, { lastMs }) => Math.max(latest, lastMs), 0) / HOUR_MS),
    );
    const keys = tallies.map(({ name }, place) => this.keyOf(name, hours[place] as number));
    await Promise.all([
      ...this.groups(keys).map((places) => {
        const names = places.map((place) => keys[place] as string);
        const texts = places.map((place) => written(tallies[place] as Tally));
        return this.send(['EVAL', ADD, `${names.length}`, ...names, ...texts], names[0]);
      }),
      this.note(tallies, Math.max(...hours)),
    ]);
  }

  async most(
    names: readonly string[] | undefined,
    count: number,
    hours: number,
  ): Promise<readonly RefusedKey[]> {
    const now = await this.nowMs();
    const known = names ?? (await this.names(now));
    const latest = Math.floor(now / HOUR_MS);
    const first = Math.floor((now - hours * HOUR_MS) / HOUR_MS);
    const all = known.flatMap((name) =>
      Array.from({ length: latest - first + 1 }, (_, index) => ({
        name,
        key: this.keyOf(name, first + index),
      })),
    );
    const texts = await this.read(all.map(({ key }) => key));
    return mostRefused(
      all.flatMap(({ name }, place) => tallyOf(name, texts[place])),
      count,
    );
  }

  /** The limits tallied in the last day. */
  private async names(nowMs: number): Promise<string[]> {
    const [text] = await this.read([this.prefix]);
    const names = parsed(text);
    const since = Math.floor(nowMs / HOUR_MS) - HOURS_KEPT;
    return Object.entries(names)
      .filter(([, hour]) => typeof hour === 'number' && hour > since)
      .map(([name]) => name);
  }

  /** Once an hour for each name. One that is lost is noted in the next hour, or by another process. */
  private async note(tallies: readonly Tally[], hour: number): Promise<void> {
    const names = tallies.map(({ name }) => name).filter((name) => this.noted.get(name) !== hour);
    if (names.length === 0) return;
    await this.send(['EVAL', NAME, '1', this.prefix, `${hour}`, ...names], this.prefix);
    for (const name of names) this.noted.set(name, hour);
  }

  /** The values of keys, each of which may be in a slot of its own. */
  private async read(keys: readonly string[]): Promise<unknown[]> {
    const values: unknown[] = [];
    // One after the other: whoever reads can wait, and requests should not.
    for (const places of this.groups(keys)) {
      const names = places.map((place) => keys[place] as string);
      const found = await this.send(['MGET', ...names], names[0]);
      for (const [index, place] of places.entries()) {
        values[place] = Array.isArray(found) ? found[index] : undefined;
      }
    }
    return values;
  }

  /**
   * Sends a command once, to where its first key is. That Redis refuses it, for want of a right perhaps, does not take
   * the store down, which decides by other commands.
   */
  private async send(command: readonly string[], key: string | undefined): Promise<unknown> {
    let refused: string | undefined;
    const answer = await this.guard.call(async () => {
      try {
        return await this.connection.send(command, key);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        refused = error.message;
        return undefined;
      }
    }, performance.now());
    if (refused === undefined) return answer;
    const problem = `Redis refused what is kept of the most refused keys: ${refused}`;
    throw new TollgateStoreError(problem, 0, new Error(refused));
  }

  private async nowMs(): Promise<number> {
    if (this.clock !== undefined) return this.clock() / 1_000;
    const time = await this.send(['TIME'], undefined);
    const [seconds, us] = Array.isArray(time) ? time.map(Number) : [];
    if (seconds === undefined || us === undefined || !Number.isFinite(seconds + us)) {
      throw new TollgateStoreError('Redis did not tell the time', 0);
    }
    return seconds * 1_000 + us / 1_000;
  }

  private groups(keys: readonly string[]): readonly (readonly number[])[] {
    if (this.connection.cluster) return placesBySlot(keys);
    return keys.length === 0 ? [] : [[...keys.keys()]];
  }

  private keyOf(name: string, hour: number): string {
    return `${this.prefix}:${name}:${hour}`;
  }
}

/** Whether Redis said that it does not do what it was asked. */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && /^(?:NOPERM|ERR|WRONGTYPE)\b/.test(error.message);
}

/** A tally as the script reads it, and keeps it. */
function written({ shadow, missed, keys }: Tally): string {
  return JSON.stringify({
    shadow,
    missed,
    keys: keys.map(({ key, count, error, firstMs, lastMs }) => [
      key,
      count,
      error,
      firstMs,
      lastMs,
    ]),
  });
}

/** A tally as the script kept it; none where there is nothing, or nothing of ours. */
function tallyOf(name: string, text: unknown): Tally[] {
  const { shadow, missed, keys } = parsed(text);
  if (typeof missed !== 'number' || !Array.isArray(keys)) return [];
  const entries = keys.flatMap((entry: unknown): KeyTally[] => {
    if (!Array.isArray(entry)) return [];
    const [key, count, error, firstMs, lastMs] = entry as unknown[];
    const numbers = { count, error, firstMs, lastMs } as Omit<KeyTally, 'key'>;
    return typeof key === 'string' && Object.values(numbers).every(Number.isFinite)
      ? [{ key, ...numbers }]
      : [];
  });
  return [{ name, shadow: shadow === true, missed, keys: entries }];
}

/** @param text what Redis holds, as text or, where a shared client was told so, as bytes. */
function parsed(text: unknown): Readonly<Record<string, unknown>> {
  if (typeof text !== 'string' && !Buffer.isBuffer(text)) return {};
  try {
    const value: unknown = JSON.parse(text.toString());
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
