import { show, TollgateStoreError } from '../errors.ts';

/** What the script is told, one after the other. */
export type Argument = number | string;

/** One item of a batch: the keys it touches, and its part of the arguments. */
export interface Item<T> {
  readonly keys: readonly string[];
  /** How many of the keys, from the first on, it cannot do without; default all. */
  readonly needed?: number;
  /** Writes the arguments, given the place in KEYS of each of its keys: of all, or of those needed. */
  write(places: readonly number[], args: Argument[]): void;
  /** Reads its part of the reply. */
  read(reply: Reply): T;
}

/** A reply being read, one integer after the other. */
export class Reply {
  readonly at: number;
  private readonly numbers: readonly unknown[];
  private cursor = 0;

  /** @throws TollgateStoreError, as `next` does, for what the script cannot have answered. */
  constructor(reply: unknown) {
    if (!Array.isArray(reply)) throw nonsense(reply);
    this.numbers = reply;
    this.at = this.next();
  }

  next(): number {
    const said = this.numbers[this.cursor++];
    const number = typeof said === 'string' ? Number(said) : said;
    if (typeof number !== 'number' || !Number.isInteger(number)) throw nonsense(said);
    return number;
  }
}

/** A proxy between here and Redis may say anything. */
function nonsense(reply: unknown): TollgateStoreError {
  const cause = new TypeError(`expected whole numbers, got ${show(reply)}`);
  return new TollgateStoreError('the store answered what was not asked', 0, cause);
}

/** What a script is called with. */
export interface Call {
  readonly keys: readonly string[];
  readonly args: readonly Argument[];
}

/** @param call with all keys, or with those needed alone. */
type Sender = (call: (keys: 'all' | 'needed') => Call, madeAt: number) => Promise<unknown>;

interface Waiting<T> {
  readonly item: Item<T>;
  readonly madeAt: number;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** Bounds of one script call, which keep it under about half a millisecond. */
const MOST_ITEMS = 128;
const MOST_KEYS = 192;

/**
 * Gathers what is asked while a call is under way, and sends it as one. What is asked while nothing is goes out at once,
 * so that a lone caller waits for nobody.
 */
export class Batches {
  private readonly send: Sender;
  private readonly isIdle: () => boolean;
  private readonly coalesce: boolean;
  private waiting: Waiting<unknown>[] = [];
  private scheduled = false;

  constructor(send: Sender, isIdle: () => boolean, coalesce: boolean) {
    this.send = send;
    this.isIdle = isIdle;
    this.coalesce = coalesce;
  }

  /** @param madeAt when the call was made whose deadline the item keeps to, on the monotonic clock. */
  run<T>(item: Item<T>, madeAt: number = performance.now()): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const entry: Waiting<T> = { item, madeAt, resolve, reject };
      if (!this.coalesce || (this.isIdle() && this.waiting.length === 0)) {
        this.flush([entry as Waiting<unknown>]);
        return;
      }
      this.waiting.push(entry as Waiting<unknown>);
      if (this.scheduled) return;
      this.scheduled = true;
      setImmediate(() => this.drain());
    });
  }

  private drain(): void {
    this.scheduled = false;
    const all = this.waiting;
    this.waiting = [];
    let batch: Waiting<unknown>[] = [];
    let keys = 0;
    for (const entry of all) {
      const more = entry.item.keys.length;
      if (batch.length === MOST_ITEMS || (batch.length > 0 && keys + more > MOST_KEYS)) {
        this.flush(batch);
        batch = [];
        keys = 0;
      }
      batch.push(entry);
      keys += more;
    }
    if (batch.length > 0) this.flush(batch);
  }

  private flush(batch: readonly Waiting<unknown>[]): void {
    const madeAt = batch.reduce((least, entry) => Math.min(least, entry.madeAt), Infinity);
    this.send((keys) => callOf(batch, keys), madeAt)
      .then((answer) => {
        const reply = new Reply(answer);
        for (const { item, resolve } of batch) resolve(item.read(reply));
      })
      // Those who have their answer already are not told of what came after it.
      .catch((error: unknown) => {
        for (const { reject } of batch) reject(error);
      });
  }
}

function callOf(batch: readonly Waiting<unknown>[], which: 'all' | 'needed'): Call {
  const places = new Map<string, number>();
  const args: Argument[] = [];
  for (const { item } of batch) {
    const { keys, needed } = item;
    const own = (which === 'all' ? keys : keys.slice(0, needed)).map((key) => {
      const place = places.get(key) ?? places.size + 1;
      places.set(key, place);
      return place;
    });
    item.write(own, args);
  }
  return { keys: [...places.keys()], args };
}
