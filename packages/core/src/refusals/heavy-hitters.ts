/** A key that was counted. */
export interface Counted {
  readonly key: string;
  /** How often it was seen, or more: never less. */
  readonly count: number;
  /** How often it was seen at least. */
  readonly atLeast: number;
  /** When it was seen first and last since it has been counted, in the unit of the times given. */
  readonly first: number;
  readonly last: number;
}

interface Entry {
  key: string;
  count: number;
  /** What of the count may belong to keys that were counted here before. */
  error: number;
  first: number;
  last: number;
  place: number;
}

/**
 * The most frequent of any number of keys, in bounded memory: a space-saving sketch. As long as there are no more keys
 * than counters it is exact. Beyond that a key takes over the smallest counter, and that much of its count is in doubt:
 * at most all counts divided by the number of counters. A key seen more often than that is always found.
 */
export class HeavyHitters {
  private readonly capacity: number;
  private readonly byKey = new Map<string, Entry>();
  /** Whose key was counted last: one that is refused now was mostly refused just before. */
  private latest: Entry | undefined;
  /** A heap with the smallest count on top. */
  private readonly heap: Entry[] = [];

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Whether every key that was ever counted has a counter of its own. */
  isExact = true;

  /** How often a key that has no counter was seen at most. */
  get missed(): number {
    return this.isExact ? 0 : (this.heap[0] as Entry).count;
  }

  count(key: string, time: number): void {
    const { latest } = this;
    const known = latest?.key === key ? latest : this.byKey.get(key);
    if (known !== undefined) {
      this.latest = known;
      known.count++;
      known.last = time;
      this.sink(known);
      return;
    }
    const own = copyOf(key);
    if (this.heap.length < this.capacity) {
      const entry = { key: own, count: 1, error: 0, first: time, last: time, place: 0 };
      this.byKey.set(own, entry);
      entry.place = this.heap.length;
      this.heap.push(entry);
      this.rise(entry);
      return;
    }
    this.isExact = false;
    const least = this.heap[0] as Entry;
    this.byKey.delete(least.key);
    least.key = own;
    least.error = least.count;
    least.count++;
    least.first = time;
    least.last = time;
    this.byKey.set(own, least);
    this.sink(least);
  }

  /** The keys counted most, at most so many. */
  top(most: number): Counted[] {
    return this.heap
      .toSorted((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1))
      .slice(0, most)
      .map(({ key, count, error, first, last }) => ({
        key,
        count,
        atLeast: count - error,
        first,
        last,
      }));
  }

  private rise(entry: Entry): void {
    const { heap } = this;
    while (entry.place > 0) {
      const parent = heap[(entry.place - 1) >> 1] as Entry;
      if (parent.count <= entry.count) return;
      this.swap(entry, parent);
    }
  }

  private sink(entry: Entry): void {
    const { heap } = this;
    for (;;) {
      const left = heap[2 * entry.place + 1];
      if (left === undefined) return;
      const right = heap[2 * entry.place + 2];
      const least = right !== undefined && right.count < left.count ? right : left;
      if (least.count >= entry.count) return;
      this.swap(entry, least);
    }
  }

  private swap(a: Entry, b: Entry): void {
    const { place } = a;
    a.place = b.place;
    b.place = place;
    this.heap[a.place] = a;
    this.heap[b.place] = b;
  }
}

/** A copy of a text: one cut out of a longer text would keep all of that in memory for as long as it lives. */
function copyOf(text: string): string {
  return ` ${text}`.slice(1);
}
