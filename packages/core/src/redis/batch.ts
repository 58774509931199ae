import { performance } from 'node:perf_hooks';
import { type Caller, Group, type Item } from './group.ts';
import { Reply } from './reply.ts';
import { ScriptCall } from './script-call.ts';

/**
 * Bounds of one script call, which keep it well under half a millisecond. They are low, so that what is asked at once goes
 * as a few calls: this process reads the answer to one while Redis works on the next.
 */
const MOST_GROUPS = 32;
const MOST_KEYS = 96;

/** What goes as one script call. */
export class Batch {
  private readonly groups: readonly Group<unknown>[];

  constructor(groups: readonly Group<unknown>[]) {
    this.groups = groups;
  }

  /** When the first of all callers asked. */
  get madeAt(): number {
    let earliest = Infinity;
    for (const { madeAt } of this.groups) if (madeAt < earliest) earliest = madeAt;
    return earliest;
  }

  /** Makes the call, with the keys of bans or without. */
  write(withBans: boolean): ScriptCall {
    const call = new ScriptCall(withBans);
    for (const group of this.groups) group.write(call);
    return call;
  }

  /** Tells all callers what was answered. */
  answer(answer: unknown): void {
    try {
      const reply = new Reply(answer);
      for (const group of this.groups) group.answer(reply);
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    for (const group of this.groups) group.fail(error);
  }
}

/**
 * Gathers what is asked while a call is under way, and sends it as one. What is asked while nothing is goes out at once,
 * so that a lone caller waits for nobody. Items that are alike are asked as one, if nothing else was asked of their key
 * in between: the answers are those of asking one after the other.
 */
export class Batches {
  private readonly send: (batch: Batch) => void;
  private readonly isIdle: () => boolean;
  private readonly coalesce: boolean;
  private waiting: Group<unknown>[] = [];
  /**
   * By key, the group that was last to ask of it, if others may join it. A new map each time: in V8 the table of
   * a map that was cleared points to the next one, so that all of them would live until the old ones are collected.
   */
  private open = new Map<string, Group<unknown>>();
  private scheduled = false;

  constructor(send: (batch: Batch) => void, isIdle: () => boolean, coalesce: boolean) {
    this.send = send;
    this.isIdle = isIdle;
    this.coalesce = coalesce;
  }

  /** @param madeAt when the call was made whose deadline the item keeps to, on the monotonic clock. */
  run<T>(item: Item<T>, madeAt: number = performance.now()): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const caller = { item, resolve, reject } as Caller<unknown>;
      if (!this.coalesce || (this.isIdle() && this.waiting.length === 0)) {
        return this.send(new Batch([new Group(caller, madeAt)]));
      }
      this.add(caller, madeAt);
      if (this.scheduled) return;
      this.scheduled = true;
      setImmediate(() => this.drain());
    });
  }

  private add(caller: Caller<unknown>, madeAt: number): void {
    const { item } = caller;
    const [key = ''] = item.keys;
    if (this.open.get(key)?.takes(caller) === true) return;
    const own = new Group(caller, madeAt);
    this.waiting.push(own);
    if (item.isLike === undefined) {
      // It may change what others ask of, such as who is banned.
      this.open = new Map();
      return;
    }
    for (const other of item.keys) this.open.delete(other);
    this.open.set(key, own);
  }

  private drain(): void {
    this.scheduled = false;
    const all = this.waiting;
    this.waiting = [];
    this.open = new Map();
    let batch: Group<unknown>[] = [];
    let keys = 0;
    for (const group of all) {
      const more = group.keys.length;
      if (batch.length === MOST_GROUPS || (batch.length > 0 && keys + more > MOST_KEYS)) {
        this.send(new Batch(batch));
        batch = [];
        keys = 0;
      }
      batch.push(group);
      keys += more;
    }
    if (batch.length > 0) this.send(new Batch(batch));
  }
}
