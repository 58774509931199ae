import type { LoopSample, Shedding } from '../src/http/shedding.ts';

/** Requests of one priority. */
export interface Stream {
  /** 0 for the highest. */
  readonly rank: number;
  readonly perSecond: number;
}

/** What became of the requests of one priority. */
interface Tally {
  refused: number;
  served: number;
  /** Of those served. */
  longestWaitMs: number;
}

interface Arrival {
  readonly atMs: number;
  readonly rank: number;
}

const TICK_MS = 20;
const REFUSAL_MS = 0.05;

/**
 * A process that serves requests on an event loop, each of which keeps it busy for `workMs`: time, requests and turns of
 * the loop are all made up, so that seconds of overload take no time.
 */
export class EventLoopPlant {
  /** The level after each sample. */
  readonly levels: number[] = [];
  private now = 0;
  private tallies: Tally[] = [];
  private readonly shedding: Shedding;
  private readonly sampleMs: number;
  private readonly workMs: number;
  private readonly random: () => number;
  private next: Arrival[] = [];
  private busyMs = 0;
  private sampledMs = 0;
  private tickMs = 0;
  private delays: number[] = [];

  /** @param random tells how irregularly requests come: a constant 1 - 1/e spaces them evenly. */
  constructor(shedding: Shedding, sampleMs: number, workMs: number, random: () => number) {
    this.shedding = shedding;
    this.sampleMs = sampleMs;
    this.workMs = workMs;
    this.random = random;
  }

  /** Lets requests come for a time. */
  run(streams: readonly Stream[], forMs: number): void {
    const endMs = this.now + forMs;
    this.next = streams.map(({ rank, perSecond }) => ({
      rank,
      atMs: this.now + this.gap(perSecond),
    }));
    while (this.now < endMs) {
      const arrivals = this.due(streams);
      if (arrivals.length === 0) this.idle(endMs);
      else this.turn(arrivals);
      this.tick();
      if (this.now >= this.sampledMs + this.sampleMs) this.sample();
    }
  }

  /** What became of the requests since the last time that this was asked, by priority. */
  take(): readonly Tally[] {
    const { tallies } = this;
    this.tallies = [];
    return tallies;
  }

  private gap(perSecond: number): number {
    return (-Math.log(1 - this.random()) * 1_000) / perSecond;
  }

  /** Takes the requests that have come by now. */
  private due(streams: readonly Stream[]): Arrival[] {
    const due: Arrival[] = [];
    for (const [index, { perSecond }] of streams.entries()) {
      let arrival = this.next[index] as Arrival;
      while (arrival.atMs <= this.now) {
        due.push(arrival);
        arrival = { rank: arrival.rank, atMs: arrival.atMs + this.gap(perSecond) };
      }
      this.next[index] = arrival;
    }
    return due.sort((a, b) => a.atMs - b.atMs);
  }

  private turn(arrivals: readonly Arrival[]): void {
    for (const { rank, atMs } of arrivals) {
      const tally = (this.tallies[rank] ??= { refused: 0, served: 0, longestWaitMs: 0 });
      const sheds = this.shedding.band(rank).sheds();
      if (sheds) {
        tally.refused++;
      } else {
        tally.served++;
        tally.longestWaitMs = Math.max(tally.longestWaitMs, this.now - atMs);
      }
      const tookMs = sheds ? REFUSAL_MS : this.workMs;
      this.now += tookMs;
      this.busyMs += tookMs;
    }
  }

  private idle(endMs: number): void {
    const events = [this.tickMs + TICK_MS, this.sampledMs + this.sampleMs, endMs];
    for (const { atMs } of this.next) events.push(atMs);
    this.now = Math.max(this.now, Math.min(...events));
  }

  private tick(): void {
    const dueMs = this.tickMs + TICK_MS;
    if (this.now < dueMs) return;
    this.delays.push(this.now - dueMs);
    this.tickMs = this.now;
  }

  private sample(): void {
    const elapsedMs = this.now - this.sampledMs;
    const sum = this.delays.reduce((total, delay) => total + delay, 0);
    const sample: LoopSample = {
      elapsedMs,
      utilization: Math.min(1, this.busyMs / elapsedMs),
      delayMs: this.delays.length === 0 ? elapsedMs - this.sampleMs : sum / this.delays.length,
    };
    this.sampledMs = this.now;
    this.busyMs = 0;
    this.delays = [];
    this.shedding.update(sample);
    this.levels.push(this.shedding.level);
  }
}
