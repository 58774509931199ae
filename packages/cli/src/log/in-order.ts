/**
 * Puts what comes nearly in order of time into that order: each item waits until `capacity` later ones have come, and
 * leaves before all that are later. Items of one time keep their order.
 *
 * An item that comes too late for that, because a later one has left already, leaves next, with the time of that one:
 * time never steps back for whoever receives them.
 */
export class InOrder<T> {
  /** Items that overtook others. */
  sorted = 0;
  /** Items that came too late. */
  late = 0;
  private readonly capacity: number;
  private readonly emit: (item: T, time: number) => void;
  /** Twice the capacity, so that what waits is moved to the front only once in a while. */
  private readonly times: Float64Array;
  private readonly places: Int32Array;
  private readonly items: (T | undefined)[];
  private readonly free: number[] = [];
  private head = 0;
  private tail = 0;
  private latest = -Infinity;

  constructor(capacity: number, emit: (item: T, time: number) => void) {
    this.capacity = capacity;
    this.emit = emit;
    this.times = new Float64Array(2 * capacity);
    this.places = new Int32Array(2 * capacity);
    this.items = Array.from({ length: capacity });
    for (let place = capacity - 1; place >= 0; place--) this.free.push(place);
  }

  push(item: T, time: number): void {
    if (time < this.latest) {
      this.late++;
      this.emit(item, this.latest);
      return;
    }
    if (this.free.length === 0) {
      if (time < (this.times[this.head] as number)) {
        this.sorted++;
        this.latest = time;
        this.emit(item, time);
        return;
      }
      this.leave();
    }
    if (this.tail === this.times.length) this.moveToFront();
    const { times, places, tail } = this;
    const place = this.free.pop() as number;
    this.items[place] = item;
    let at = tail;
    if (tail > this.head && (times[tail - 1] as number) > time) {
      this.sorted++;
      at = this.after(time);
      times.copyWithin(at + 1, at, tail);
      places.copyWithin(at + 1, at, tail);
    }
    times[at] = time;
    places[at] = place;
    this.tail++;
  }

  /** Lets all leave that still wait. */
  flush(): void {
    while (this.head < this.tail) this.leave();
  }

  private leave(): void {
    const place = this.places[this.head] as number;
    const item = this.items[place] as T;
    this.latest = this.times[this.head] as number;
    this.head++;
    this.items[place] = undefined;
    this.free.push(place);
    this.emit(item, this.latest);
  }

  private moveToFront(): void {
    this.times.copyWithin(0, this.head, this.tail);
    this.places.copyWithin(0, this.head, this.tail);
    this.tail -= this.head;
    this.head = 0;
  }

  /** The place behind all that wait and are no later than a time. */
  private after(time: number): number {
    let low = this.head;
    let high = this.tail;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.times[middle] as number) <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
