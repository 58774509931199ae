import { performance } from 'node:perf_hooks';
import { Reply } from './reply.ts';
import { ScriptCall } from './script-call.ts';

/** Something the script is asked. */
export interface Item<T> {
  /** The keys that it cannot do without. */
  readonly keys: readonly string[];
  write(call: ScriptCall): void;
  /** Reads its part of the reply. */
  read(reply: Reply): T;
  /** Whether `other` may be asked together with this one: the same of the same key. */
  isLike?(other: Item<unknown>): boolean;
  /** Asks for several that are alike, this one among them. */
  fold?(alike: readonly Item<T>[]): Item<readonly T[]>;
}

/** @param write makes the call, with the keys of bans or without. */
type Sender = (write: (withBans: boolean) => ScriptCall, madeAt: number) => Promise<unknown>;

interface Caller<T> {
  readonly item: Item<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** Callers whose items are alike. */
interface Group<T> {
  readonly callers: Caller<T>[];
  /** When the first of them asked. */
  readonly madeAt: number;
}

/**
 * Bounds of one script call, which keep it well under half a millisecond. They are low, so that what is asked at once goes
 * as a few calls: this process reads the answer to one while Redis works on the next.
 */
const MOST_GROUPS = 32;
const MOST_KEYS = 96;
const MOST_ALIKE = 256;

/**
 * Gathers what is asked while a call is under way, and sends it as one. What is asked while nothing is goes out at once,
 * so that a lone caller waits for nobody. Items that are alike are asked as one, if nothing else was asked of their key
 * in between: the answers are those of asking one after the other.
 */
export class Batches {
  private readonly send: Sender;
  private readonly isIdle: () => boolean;
  private readonly coalesce: boolean;
  private waiting: Group<unknown>[] = [];
  /**
   * By key, the group that was last to ask of it, if others may join it. A new map each time: in V8 the table of
   * a map that was cleared points to the next one, so that all of them would live until the old ones are collected.
   */
  private open = new Map<string, Group<unknown>>();
  private scheduled = false;

  constructor(send: Sender, isIdle: () => boolean, coalesce: boolean) {
    this.send = send;
    this.isIdle = isIdle;
    this.coalesce = coalesce;
  }

  /** @param madeAt when the call was made whose deadline the item keeps to, on the monotonic clock. */
  run<T>(item: Item<T>, madeAt: number = performance.now()): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const caller = { item, resolve, reject } as Caller<unknown>;
      if (!this.coalesce || (this.isIdle() && this.waiting.length === 0)) {
        this.flush([{ callers: [caller], madeAt }]);
        return;
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
    const group = this.open.get(key);
    const first = group?.callers[0];
    const joins = first !== undefined && item.isLike?.(first.item) === true;
    if (group !== undefined && joins && group.callers.length < MOST_ALIKE) {
      group.callers.push(caller);
      return;
    }
    const own = { callers: [caller], madeAt };
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
      const more = group.callers[0]?.item.keys.length ?? 0;
      if (batch.length === MOST_GROUPS || (batch.length > 0 && keys + more > MOST_KEYS)) {
        this.flush(batch);
        batch = [];
        keys = 0;
      }
      batch.push(group);
      keys += more;
    }
    if (batch.length > 0) this.flush(batch);
  }

  private flush(batch: readonly Group<unknown>[]): void {
    const asked = batch.map(({ callers }) => askedOf(callers));
    const write = (withBans: boolean): ScriptCall => {
      const call = new ScriptCall(withBans);
      for (const { item } of asked) item.write(call);
      return call;
    };
    const madeAt = batch.reduce((least, group) => Math.min(least, group.madeAt), Infinity);
    this.send(write, madeAt)
      .then((answer) => {
        const reply = new Reply(answer);
        for (const { item, tell } of asked) tell(item.read(reply));
      })
      // Those who have their answer already are not told of what came after it.
      .catch((error: unknown) => {
        for (const { callers } of batch) for (const { reject } of callers) reject(error);
      });
  }
}

/** What is asked for callers, and how they are told. */
function askedOf(callers: readonly Caller<unknown>[]): {
  readonly item: Item<unknown>;
  readonly tell: (answer: unknown) => void;
} {
  const [first] = callers as readonly [Caller<unknown>];
  const { item } = first;
  if (callers.length === 1 || item.fold === undefined) return { item, tell: first.resolve };
  const fold = item.fold(callers.map((caller) => caller.item));
  const tell = (answers: readonly unknown[]): void => {
    for (let i = 0; i < callers.length; i++) callers[i]?.resolve(answers[i]);
  };
  return { item: fold, tell: tell as (answer: unknown) => void };
}
