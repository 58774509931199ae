/** How many steps each series keeps. */
export const STEPS = 120;

/** The spans of time that the page shows, by name; each is kept in steps of its own. */
export const RANGES = { '2m': 1_000, '1h': 30_000, '24h': 720_000 } as const;
export type Range = keyof typeof RANGES;

/** What became of a request at one limit: `elsewhere` was let through by this one and refused by another. */
export const OUTCOMES = ['admitted', 'refused', 'elsewhere'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Counts by outcome, the oldest step first; the last step is still going on. */
export type Counts = Readonly<Record<Outcome, readonly number[]>>;

/**
 * Counts of the last 120 steps of time, in a ring of fixed size. Times are milliseconds of a clock that never steps
 * back.
 */
export class Series {
  private readonly stepMs: number;
  private readonly counts: Readonly<Record<Outcome, Float64Array>>;
  /** The newest step that anything was counted or read in. */
  private newest = 0;

  constructor(stepMs: number) {
    this.stepMs = stepMs;
    this.counts = {
      admitted: new Float64Array(STEPS),
      refused: new Float64Array(STEPS),
      elsewhere: new Float64Array(STEPS),
    };
  }

  add(outcome: Outcome, atMs: number): void {
    const place = this.advance(atMs) % STEPS;
    const counts = this.counts[outcome];
    counts[place] = (counts[place] ?? 0) + 1;
  }

  read(atMs: number): Counts {
    const first = this.advance(atMs) + 1;
    const inOrder = (counts: Float64Array): number[] =>
      Array.from(counts, (_, index) => counts[(first + index) % STEPS] ?? 0);
    return {
      admitted: inOrder(this.counts.admitted),
      refused: inOrder(this.counts.refused),
      elsewhere: inOrder(this.counts.elsewhere),
    };
  }

  /** Empties the steps that passed since the last call. Returns the number of the present one. */
  private advance(atMs: number): number {
    const step = Math.max(this.newest, Math.floor(atMs / this.stepMs));
    if (step === this.newest) return step;
    const passed = Math.min(STEPS, step - this.newest);
    for (let i = 0; i < passed; i++) {
      const place = (step - i) % STEPS;
      for (const outcome of OUTCOMES) this.counts[outcome][place] = 0;
    }
    this.newest = step;
    return step;
  }
}
