import { type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { LoopSample } from './shedding.ts';

/** Looks at an event loop. */
export interface Sampler {
  start(): void;
  /** What happened since the last sample, or since the start. */
  sample(): LoopSample;
  stop(): void;
}

/** How often the delay is looked at, in milliseconds; Node does that without JavaScript. */
const TICK_MS = 20;

/** Looks at the event loop of this thread. */
export class EventLoop implements Sampler {
  private readonly sampleMs: number;
  private readonly delay: IntervalHistogram = monitorEventLoopDelay({ resolution: TICK_MS });
  private last = performance.eventLoopUtilization();
  private ticks = 0;
  private ticksMs = 0;

  /** @param sampleMs how often `sample` is to be called. */
  constructor(sampleMs: number) {
    this.sampleMs = sampleMs;
  }

  start(): void {
    this.delay.enable();
    this.sample();
  }

  sample(): LoopSample {
    const now = performance.eventLoopUtilization();
    const { active, idle, utilization } = performance.eventLoopUtilization(now, this.last);
    this.last = now;
    const elapsedMs = active + idle;
    return { elapsedMs, utilization, delayMs: Math.max(0, this.delayOf(elapsedMs)) };
  }

  stop(): void {
    this.delay.disable();
  }

  /** The mean of the ticks since the last sample. A reset of the histogram would lose the tick that comes next. */
  private delayOf(elapsedMs: number): number {
    const { count, mean } = this.delay;
    const ticksMs = count === 0 ? 0 : (mean * count) / 1e6;
    const delayMs = (ticksMs - this.ticksMs) / (count - this.ticks) - TICK_MS;
    // Without a tick the loop did not turn, and what is known is how late this sample is.
    const known = count > this.ticks ? delayMs : elapsedMs - this.sampleMs;
    this.ticks = count;
    this.ticksMs = ticksMs;
    return known;
  }
}
