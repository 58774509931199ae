import { Decision } from '../decision.ts';

/** How a shedder finds the load. */
export interface Overload {
  readonly level: number;
  readonly utilization: number;
  readonly delayMs: number;
  readonly restoreAfterMs: number;
}

/** The refusal of a request by a load shedder. No limit was asked, so it has no verdicts. */
export class ShedDecision extends Decision {
  readonly priority: string;
  readonly overload: Overload;
  readonly #retryAfterMs: number;

  constructor(priority: string, overload: Overload) {
    super({ admitted: false, verdicts: [], at: Date.now() * 1_000, delay: 0 }, []);
    this.priority = priority;
    this.overload = overload;
    this.#retryAfterMs = Math.max(1_000, Math.ceil(overload.restoreAfterMs));
  }

  override get reason(): 'overloaded' {
    return 'overloaded';
  }

  /** Until nothing is refused any more, if the load is gone now; at least a second. */
  override get retryAfterMs(): number {
    return this.#retryAfterMs;
  }

  /** Nothing was charged, so there is nothing to undo. */
  override undone(): this {
    return this;
  }
}
