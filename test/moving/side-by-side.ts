import { type MemoryStore, memoryStore } from '@tollgate/core';
import { afterEach, beforeEach, expect, vi } from 'vitest';
import { Random } from '../../packages/core/src/testing/random.ts';
import { START } from '../http/clock.ts';
import { ask, type Reply } from '../http/clients.ts';

/** Of most limits here. It starts with a minute of UTC, where our windows do. */
export const WINDOW_MS = 60_000;

/** One request, to be sent to both. */
export interface Sent {
  readonly atMs: number;
  readonly client: number;
  /** What the handler answers with. */
  readonly status: number;
  readonly skipped: boolean;
}

/** Every date of a test is told by `at`: what others read as Date.now(), and our store's clock. */
export function tellDates(): void {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: START }));
  afterEach(() => void vi.useRealTimers());
}

/** Goes to this many milliseconds after the start. */
export function at(ms: number): void {
  vi.setSystemTime(START + ms);
}

export function datedStore(): MemoryStore {
  return memoryStore({ clock: () => Date.now() * 1_000 });
}

export interface Traffic {
  readonly windows: number;
  readonly perWindow: number;
  readonly clients: number;
  readonly statuses: readonly number[];
  readonly skips: boolean;
}

/**
 * Traffic on which both sorts of windows are the same ones: who comes in a window at all comes at its start first,
 * where a window that is counted from a key's first request starts too. The rest of it is random.
 */
export function history(seed: number, traffic: Traffic): Sent[] {
  const { windows, perWindow, clients, statuses, skips } = traffic;
  const random = new Random(seed);
  const sent: Sent[] = [];
  for (let window = 0; window < windows; window++) {
    const startMs = window * WINDOW_MS;
    const present = Array.from({ length: clients }, (_, client) => client).filter(
      (client) => client === window % clients || random.upTo(2) > 0,
    );
    for (const client of present) {
      sent.push({ atMs: startMs, client, status: random.from(statuses), skipped: false });
    }
    const times = Array.from({ length: perWindow }, () =>
      random.from([0, 1, 999, 1_000, WINDOW_MS - 1, random.upTo(WINDOW_MS - 1)]),
    );
    for (const time of times.sort((a, b) => a - b)) {
      sent.push({
        atMs: startMs + time,
        client: random.from(present),
        status: random.from(statuses),
        skipped: skips && random.upTo(4) === 0,
      });
    }
  }
  return sent;
}

/** What a client is told, of the fields that both may send; undefined where a field is not there. */
export interface Told {
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
}

const FIELDS: readonly string[] = [
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
];

/** Writes a field as the other side would; undefined leaves it out. */
export type Reading = (field: string, value: string) => readonly [string, string] | undefined;

const asSent: Reading = (field, value) => [field, value];

/** What an answer says, each field of it read by `read`. */
export function told({ status, headers, text }: Reply, read: Reading = asSent): Told {
  const fields: Record<string, string> = {};
  for (const field of FIELDS) {
    const value = headers.get(field);
    const [name, said] = (value !== null && read(field, value)) || [];
    if (name !== undefined && said !== undefined) fields[name] = said;
  }
  return { status, fields, body: text };
}

export interface Pair {
  readonly theirs: string;
  readonly ours: string;
}

/** Asks both in turn, at the same time of both. */
export async function askBoth(
  { theirs, ours }: Pair,
  path: string,
  headers: Record<string, string> = {},
): Promise<{ theirs: Reply; ours: Reply }> {
  return {
    theirs: await ask(`${theirs}${path}`, { headers }),
    ours: await ask(`${ours}${path}`, { headers }),
  };
}

/** Sends traffic to both, and compares every answer. Returns how many there were of each status. */
export async function compare(
  pair: Pair,
  traffic: readonly Sent[],
  headersOf: (sent: Sent) => Record<string, string>,
  read: Reading = asSent,
): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const [index, sent] of traffic.entries()) {
    at(sent.atMs);
    const { theirs, ours } = await askBoth(pair, `/?status=${sent.status}`, headersOf(sent));
    const context = `request ${index}, ${JSON.stringify(sent)}`;
    expect(told(ours, read), context).toEqual(told(theirs, read));
    counts[theirs.status] = (counts[theirs.status] ?? 0) + 1;
  }
  return counts;
}
