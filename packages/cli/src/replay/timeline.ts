const SECOND = 1e6;
/** Widths of a bucket, in seconds; each divides the next. */
const WIDTHS = [1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800];
const MOST_BUCKETS = 240;

/** Counts over time, of several series on one axis, in bounded memory: buckets grow wider as the span grows longer. */
export class Timeline {
  /** The width of a bucket, in microseconds. */
  width: number = SECOND;
  /** When the first bucket begins, in microseconds since the epoch. */
  from = 0;
  /** Buckets in use. */
  length = 0;
  private readonly series: readonly Float64Array[];

  constructor(series: number) {
    this.series = Array.from({ length: series }, () => new Float64Array(MOST_BUCKETS));
  }

  /** The bucket of a time; times never step back. */
  bucket(time: number): number {
    if (this.length === 0) this.from = Math.floor(time / this.width) * this.width;
    let index = Math.floor((time - this.from) / this.width);
    while (index >= MOST_BUCKETS) {
      this.widen();
      index = Math.floor((time - this.from) / this.width);
    }
    if (index >= this.length) this.length = index + 1;
    return index;
  }

  add(series: number, bucket: number): void {
    const counts = this.series[series] as Float64Array;
    counts[bucket] = (counts[bucket] as number) + 1;
  }

  counts(series: number): number[] {
    return [...(this.series[series] as Float64Array).subarray(0, this.length)];
  }

  private widen(): void {
    const seconds = this.width / SECOND;
    const next = WIDTHS.find((width) => width > seconds) ?? seconds * 2;
    const width = next * SECOND;
    const from = Math.floor(this.from / width) * width;
    const target = (bucket: number): number =>
      Math.floor((this.from + bucket * this.width - from) / width);
    for (const counts of this.series) {
      // Targets never lie behind their bucket, so that nothing is overwritten before it was read.
      for (let bucket = 0; bucket < this.length; bucket++) {
        const count = counts[bucket] as number;
        counts[bucket] = 0;
        const at = target(bucket);
        counts[at] = (counts[at] as number) + count;
      }
    }
    this.length = this.length === 0 ? 0 : target(this.length - 1) + 1;
    this.from = from;
    this.width = width;
  }
}
