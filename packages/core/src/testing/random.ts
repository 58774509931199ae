/** Random numbers that are the same for the same seed. */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed | 0;
  }

  /** A whole number from 0 to `most`. */
  upTo(most: number): number {
    return Math.floor(this.next() * (most + 1));
  }

  /** One of several; a value that is listed twice comes up twice as often. */
  from<T>(values: readonly T[]): T {
    // There is at least one.
    return values[this.upTo(values.length - 1)] as T;
  }

  /** From 0 up to 1: a counter of 32 bits, by steps of the golden ratio, whose bits are mixed until they look unrelated. */
  private next(): number {
    this.state = (this.state + 0x9e3779b9) | 0;
    let mixed = this.state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  }
}
