/** How busy an event loop was over a span of time. */
export interface LoopSample {
  readonly elapsedMs: number;
  /** The share of the time that it was not idle, from 0 to 1. */
  readonly utilization: number;
  /** How much later than due a turn of the loop came, on average. */
  readonly delayMs: number;
}

/** What a shedder aims at. */
export interface SheddingGoals {
  readonly maxUtilization: number;
  readonly maxDelayMs: number;
  readonly sampleMs: number;
  readonly restoreMs: number;
}

/** How much a sample counts beside those before it: one of its own is no overload. */
const WEIGHT = 0.5;
/** What one sample takes at most from the share that is admitted; a late one as much as the samples it stands for. */
const MOST_CUT = 0.3;
/** A late sample stands for no more than so many. */
const MOST_STEPS = 4;
/** How much of what a goal is missed by is cut: all of it, again and again until the cut is felt, would be too much. */
const GAIN = 0.5;
/** Below this share of the goals more is admitted again. In between the level stays, so that it comes to rest. */
const RELAXED = 0.9;
/** Below this share as fast as may be; in between the slower the nearer the goal, so that it is not overrun. */
const AT_EASE = 0.6;
/** How many requests back the mix of priorities is known from, where they are few. */
const MIX_OF = 200;
/** What walks through all of 100 places, well spread and out of step with callers that come in turns. */
const STRIDE = 61;

/** The requests of one priority: how many there are, and how many of a hundred are refused. */
export class Band {
  /** Refused of a hundred, a whole number. */
  share = 0;
  /** Since the last sample. */
  arrived = 0;
  /** Of late, for the mix. */
  recent = 0;
  private place = 0;

  /** Counts a request in, and says whether it is refused: exactly `share` of any hundred in a row are. */
  sheds(): boolean {
    this.arrived++;
    if (this.share === 0) return false;
    this.place = (this.place + STRIDE) % 100;
    return this.place < this.share;
  }
}

/**
 * Decides how many requests are refused so that the event loop stays within its goals: arithmetic only, without a clock.
 *
 * While a goal is missed each sample cuts the share that is admitted by half of what the goal is missed by, by 30 % at
 * most. Once the loop is at ease the level falls evenly, by all of it in `restoreMs`; near the goals more slowly. What is
 * refused is taken from the lowest priority first, by the mix of late; the highest is never refused.
 */
export class Shedding {
  /** The share of all requests that is refused, from 0 to 1. */
  level = 0;
  /** Of late, from 0 to 1. */
  utilization = 0;
  /** Of late. */
  delayMs = 0;
  private readonly goals: SheddingGoals;
  /** The highest priority first. */
  private readonly bands: Band[] = [];

  constructor(goals: SheddingGoals) {
    this.goals = goals;
  }

  /** The requests of a priority, 0 for the highest. */
  band(rank: number): Band {
    while (this.bands.length <= rank) this.bands.push(new Band());
    return this.bands[rank] as Band;
  }

  /** How long it takes, once the load is gone, until nothing is refused any more. */
  get restoreAfterMs(): number {
    return this.level * this.goals.restoreMs;
  }

  /** Takes the next sample into account. */
  update(sample: LoopSample): void {
    const { sampleMs, restoreMs } = this.goals;
    const steps = Math.min(sample.elapsedMs / sampleMs, MOST_STEPS);
    const weight = 1 - (1 - WEIGHT) ** steps;
    this.utilization += (sample.utilization - this.utilization) * weight;
    this.delayMs += (sample.delayMs - this.delayMs) * weight;
    const pressure = this.pressure();
    const recent = this.mix();
    if (pressure > 1) {
      const kept = Math.max(1 / (1 + GAIN * (pressure - 1)), (1 - MOST_CUT) ** steps);
      // What cannot be refused is not reckoned with, but a few that come in a row do not lower the level.
      const most = Math.max(this.level, this.most(recent));
      this.level = Math.min(1 - (1 - this.level) * kept, most);
    } else if (pressure < RELAXED) {
      const ease = Math.min(1, (RELAXED - pressure) / (RELAXED - AT_EASE));
      this.level = Math.max(0, this.level - (ease * steps * sampleMs) / restoreMs);
    }
    this.share(recent);
  }

  /** By which factor the goal that is missed most is missed; below 1 when none is. */
  private pressure(): number {
    const { maxUtilization, maxDelayMs } = this.goals;
    // A loop is never busier than 1, so that a goal of 1 is none.
    const busy = maxUtilization === 1 ? 0 : this.utilization / maxUtilization;
    return Math.max(busy, this.delayMs / maxDelayMs);
  }

  /** Brings the mix up to date. Returns the sum of what came of late. */
  private mix(): number {
    let arrived = 0;
    for (const band of this.bands) arrived += band.arrived;
    const kept = Math.max(0, 1 - arrived / MIX_OF);
    let recent = 0;
    for (const band of this.bands) {
      band.recent = band.recent * kept + band.arrived;
      band.arrived = 0;
      recent += band.recent;
    }
    return recent;
  }

  /** The share of all requests that may be refused, by the mix of late. */
  private most(recent: number): number {
    const [highest] = this.bands;
    return highest === undefined || recent === 0 ? 1 : 1 - highest.recent / recent;
  }

  /** Shares the level out, the lowest priority first. */
  private share(recent: number): void {
    let left = this.level * recent;
    for (let rank = this.bands.length - 1; rank > 0; rank--) {
      const band = this.bands[rank] as Band;
      if (left >= band.recent) band.share = left > 0 ? 100 : 0;
      else band.share = Math.round((100 * left) / band.recent);
      left = Math.max(0, left - band.recent);
    }
  }
}
