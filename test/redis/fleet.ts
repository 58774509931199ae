import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Keys, LimitOptions, Verdict } from '@tollgate/core';

/** What a member was told of one request. */
export interface MemberAnswer {
  readonly allowed: boolean;
  readonly atMs: number;
  readonly delayMs: number;
  readonly verdicts: readonly Verdict[];
}

/** What all members do at once. */
export interface Job {
  /** Of the keys in Redis, so that jobs do not meet. */
  readonly prefix: string;
  readonly limits: readonly LimitOptions[];
  /** What each member asks for. */
  readonly keysOf: (member: number) => Keys;
  readonly rounds: number;
  /** The calls that are made at once in a round, by their costs. */
  readonly costs: readonly number[];
}

/** What every member waits for. */
interface Waits {
  /** Of the keys in Redis. */
  readonly prefix: string;
  readonly limits: readonly LimitOptions[];
  readonly keys: Keys;
  /** How many wait in each member at once. */
  readonly count: number;
  /** How long each holds what it got. */
  readonly holdMs: number;
}

/** One wait, with times in milliseconds since the epoch. */
export interface Served {
  /** In the order in which they came. */
  readonly place: number;
  /** The store's. */
  readonly atMs: number;
  readonly servedMs: number;
  readonly doneMs: number;
}

const MEMBER = fileURLToPath(new URL('fleet-member.mjs', import.meta.url));

/** Processes that share limits in one Redis. They run the built packages. */
export class Fleet {
  private readonly members: readonly ChildProcess[];

  private constructor(members: readonly ChildProcess[]) {
    this.members = members;
  }

  /** @param told whether what the members print is shown. */
  static start(size: number, port: number, told: 'inherit' | 'ignore' = 'inherit'): Fleet {
    const { NODE_OPTIONS: _, ...env } = process.env;
    return new Fleet(
      Array.from({ length: size }, () =>
        fork(MEMBER, [`${port}`], {
          env,
          execArgv: [],
          serialization: 'advanced',
          stdio: ['ignore', told, told, 'ipc'],
        }),
      ),
    );
  }

  /** Has all members do a job. Returns what each was told, in the order of the replies. */
  async run({ prefix, limits, keysOf, rounds, costs }: Job): Promise<MemberAnswer[][]> {
    await this.each((member) => ['prepare', { prefix, limits, keys: keysOf(member) }]);
    return (await this.each((member) => [
      'hammer',
      { rounds, costs, keys: keysOf(member) },
    ])) as MemberAnswer[][];
  }

  /** Has all members wait for the same. Returns what became of it, by member, in the order in which each was served. */
  async wait({ prefix, limits, keys, count, holdMs }: Waits): Promise<Served[][]> {
    await this.each(() => ['prepare', { prefix, limits, keys }]);
    return (await this.each(() => ['wait', { count, holdMs, keys }])) as Served[][];
  }

  /** Closes the members' limiters, which frees what they hold. */
  async close(): Promise<void> {
    await this.each(() => ['close', undefined]);
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.members.map(async (member) => {
        if (member.exitCode !== null || member.signalCode !== null) return;
        const exit = once(member, 'exit');
        if (member.connected) member.disconnect();
        await exit;
      }),
    );
  }

  private each(
    call: (member: number) => readonly [name: string, options: unknown],
  ): Promise<unknown[]> {
    return Promise.all(
      this.members.map(async (member, index) => {
        const [name, options] = call(index);
        const done = new AbortController();
        const { signal } = done;
        const reply = once(member, 'message', { signal });
        const gone = once(member, 'exit', { signal }).then(([code]) => {
          throw new Error(`member ${index} ended with ${String(code)} in ${name}`);
        });
        try {
          member.send({ name, options });
          const first = await Promise.race([reply, gone]);
          const [{ value, error }] = first as [{ value?: unknown; error?: string }];
          if (error !== undefined) throw new Error(`member ${index}: ${error}`);
          return value;
        } finally {
          done.abort();
        }
      }),
    );
  }
}
