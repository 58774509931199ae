/** One item of a batch: the keys it touches, and its part of the arguments. */
export interface Item<T> {
  readonly keys: readonly string[];
  /** Writes the arguments, given the place in KEYS of each of its keys. */
  write(places: readonly number[], args: string[]): void;
  /** Reads its part of the reply. */
  read(reply: Reply): T;
}

/** A reply being read, one integer after the other. */
export class Reply {
  readonly at: number;
  private readonly numbers: readonly number[];
  private cursor = 1;

  constructor(numbers: readonly number[]) {
    this.numbers = numbers;
    this.at = Number(numbers[0]);
  }

  next(): number {
    const number = this.numbers[this.cursor++];
    if (number === undefined) throw new Error('Redis answered less than was asked.');
    return Number(number);
  }
}

interface Waiting<T> {
  readonly item: Item<T>;
  readonly madeAt: number;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** Bounds of one script call, which keep it under about half a millisecond. */
const MOST_ITEMS = 128;
const MOST_KEYS = 96;

/**
 * Gathers what is asked while a call is under way, and sends it as one. What is asked while nothing is goes out at once,
 * so that a lone caller waits for nobody.
 */
export class Batches {
  private readonly send: (keys: string[], args: string[], madeAt: number) => Promise<number[]>;
  private readonly isIdle: () => boolean;
  private readonly coalesce: boolean;
  private waiting: Waiting<unknown>[] = [];
  private scheduled = false;

  constructor(
    send: (keys: string[], args: string[], madeAt: number) => Promise<number[]>,
    isIdle: () => boolean,
    coalesce: boolean,
  ) {
    this.send = send;
    this.isIdle = isIdle;
    this.coalesce = coalesce;
  }

  run<T>(item: Item<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const entry: Waiting<T> = { item, madeAt: performance.now(), resolve, reject };
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
    const places = new Map<string, number>();
    const args: string[] = [];
    for (const { item } of batch) {
      const own = item.keys.map((key) => {
        const place = places.get(key) ?? places.size + 1;
        places.set(key, place);
        return place;
      });
      item.write(own, args);
    }
    const madeAt = batch.reduce((least, entry) => Math.min(least, entry.madeAt), Infinity);
    this.send([...places.keys()], args, madeAt).then(
      (numbers) => {
        const reply = new Reply(numbers);
        for (const { item, resolve } of batch) resolve(item.read(reply));
      },
      (error: unknown) => {
        for (const { reject } of batch) reject(error);
      },
    );
  }
}
