/** The time that requests and retries are counted over. */
const WINDOW_SECONDS = 10;
/** Origins that are remembered at most. */
const MOST_ORIGINS = 1_000;

/** What was sent to one origin, second by second. */
interface Counts {
  readonly seconds: Int32Array;
  readonly requests: Float64Array;
  readonly retries: Float64Array;
}

/**
 * The share of retries to requests: while a provider is down, retries must not multiply the load on it. In any ten
 * seconds an origin gets at most `minimum` retries and the `share` of its requests on top.
 */
export class RetryBudget {
  private readonly share: number;
  private readonly minimum: number;
  private readonly origins = new Map<string, Counts>();

  constructor(share: number, minimum: number) {
    this.share = share;
    this.minimum = minimum;
  }

  /** Counts a request that is no retry. */
  request(origin: string): void {
    const { counts, slot } = this.now(origin);
    counts.requests[slot] = (counts.requests[slot] ?? 0) + 1;
  }

  /** Whether one more retry is within the budget; if so it is counted. */
  retry(origin: string): boolean {
    const { counts, slot, second } = this.now(origin);
    let requests = 0;
    let retries = 0;
    for (let i = 0; i < WINDOW_SECONDS; i++) {
      if ((counts.seconds[i] ?? 0) <= second - WINDOW_SECONDS) continue;
      requests += counts.requests[i] ?? 0;
      retries += counts.retries[i] ?? 0;
    }
    if (retries + 1 > this.minimum + this.share * requests) return false;
    counts.retries[slot] = (counts.retries[slot] ?? 0) + 1;
    return true;
  }

  private now(origin: string): { counts: Counts; slot: number; second: number } {
    const second = Math.floor(performance.now() / 1_000);
    const slot = second % WINDOW_SECONDS;
    const counts = this.origins.get(origin) ?? this.add(origin);
    if (counts.seconds[slot] !== second) {
      counts.seconds[slot] = second;
      counts.requests[slot] = 0;
      counts.retries[slot] = 0;
    }
    return { counts, slot, second };
  }

  private add(origin: string): Counts {
    const [oldest] = this.origins.keys();
    if (oldest !== undefined && this.origins.size >= MOST_ORIGINS) this.origins.delete(oldest);
    const counts = {
      seconds: new Int32Array(WINDOW_SECONDS).fill(-WINDOW_SECONDS),
      requests: new Float64Array(WINDOW_SECONDS),
      retries: new Float64Array(WINDOW_SECONDS),
    };
    this.origins.set(origin, counts);
    return counts;
  }
}
