/** One value of a metric. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What a counter has counted, by the values of its labels. */
export class Series {
  private readonly names: readonly string[];
  private readonly counted = new Map<string, { labels: Record<string, string>; value: number }>();

  constructor(names: readonly string[]) {
    this.names = names;
  }

  add(units: number, ...values: readonly string[]): void {
    const id = values.join('\n');
    let sample = this.counted.get(id);
    if (sample === undefined) {
      const labels = Object.fromEntries(
        this.names.map((name, index) => [name, values[index] ?? '']),
      );
      this.counted.set(id, (sample = { labels, value: 0 }));
    }
    sample.value += units;
  }

  samples(): Iterable<Sample> {
    return this.counted.values();
  }
}

/** Stands for all names after the first so many. No limit is named so. */
const OTHERS = '(other)';

/** Keeps the values of a label few, whatever an application calls its limits and stores. */
export class Names {
  private readonly known = new Set<string>();
  private readonly most: number;

  constructor(most: number) {
    this.most = most;
  }

  of(name: string): string {
    if (this.known.has(name)) return name;
    if (this.known.size >= this.most) return OTHERS;
    this.known.add(name);
    return name;
  }
}
