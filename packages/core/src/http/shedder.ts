import { type Duration, parseDuration } from '../duration.ts';
import { show, TollgateArgumentError, TollgateConfigError } from '../errors.ts';
import { refuseUnknown } from '../limits.ts';
import { EventLoop, type Sampler } from './event-loop.ts';
import { ShedDecision } from './shed-decision.ts';
import { type Band, Shedding, type SheddingGoals } from './shedding.ts';

export interface LoadShedderOptions {
  /** The share of the time that the event loop may be busy, above 0; default 0.9. 1 goes by the delay alone. */
  readonly maxUtilization?: number;
  /** How late the event loop's turns may come on average; default 50 ms. */
  readonly maxDelayMs?: Duration;
  /** How often the event loop is looked at, from 10 ms to 10 s; default 200 ms. */
  readonly sampleMs?: Duration;
  /** How long it takes, once the load is gone, from refusing all that may be refused to nothing; default 10 s. */
  readonly restoreMs?: Duration;
}

const OPTIONS = ['maxUtilization', 'maxDelayMs', 'sampleMs', 'restoreMs'] as const;
const SHORTEST_SAMPLE_MS = 10;
const LONGEST_SAMPLE_MS = 10_000;

/** Marks requests that a shedder has let in. One name for all copies of this module. */
const MET = Symbol.for('tollgate.shedder');

/**
 * Refuses requests while this process has more to do than it can, the lowest priority first. It goes by the event loop
 * of its thread and may be given to several gates.
 */
export class LoadShedder {
  private readonly shedding: Shedding;
  private readonly sampleMs: number;
  private readonly sampler: Sampler;
  private readonly users = new Set<Entrance>();
  private timer: NodeJS.Timeout | undefined;

  constructor(goals: SheddingGoals, sampler: Sampler) {
    this.shedding = new Shedding(goals);
    this.sampleMs = goals.sampleMs;
    this.sampler = sampler;
  }

  /** The share of all requests that is refused now, from 0 to 1. */
  get level(): number {
    return this.shedding.level;
  }

  /** The share of the time that the event loop was busy of late, from 0 to 1; 0 before the first request. */
  get utilization(): number {
    return this.shedding.utilization;
  }

  /** How late the event loop's turns came of late, in milliseconds; 0 before the first request. */
  get delayMs(): number {
    return this.shedding.delayMs;
  }

  /** For gates: how long it takes until nothing is refused any more, if the load is gone now. */
  get restoreAfterMs(): number {
    return this.shedding.restoreAfterMs;
  }

  /**
   * For gates: where requests of these priorities, the highest first, come in. Several gates' priorities are told apart
   * by their place.
   *
   * @throws TollgateConfigError when there is one priority only, of which nothing would ever be refused.
   */
  entrance(priorities: readonly string[], usual: string): Entrance {
    if (priorities.length < 2) {
      throw new TollgateConfigError(
        'priorities',
        'the highest priority is never shed and there is no other, so the shedder would do nothing; add a lower one',
      );
    }
    const bands = priorities.map((priority, rank) => [priority, this.shedding.band(rank)] as const);
    return new Entrance(this, new Map(bands), usual);
  }

  /** For entrances: looks at the event loop as long as somebody uses what it says. */
  join(entrance: Entrance): void {
    this.users.add(entrance);
    if (this.timer !== undefined) return;
    this.sampler.start();
    this.timer = setInterval(() => this.shedding.update(this.sampler.sample()), this.sampleMs);
    this.timer.unref();
  }

  /** For entrances. */
  leave(entrance: Entrance): void {
    this.users.delete(entrance);
    if (this.users.size > 0 || this.timer === undefined) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.sampler.stop();
  }
}

/** Where the requests of one gate meet a shedder. */
export class Entrance {
  private readonly shedder: LoadShedder;
  private readonly bands: ReadonlyMap<string, Band>;
  private readonly usual: string;
  private readonly usualBand: Band;
  private state: 'unused' | 'open' | 'closed' = 'unused';

  constructor(shedder: LoadShedder, bands: ReadonlyMap<string, Band>, usual: string) {
    this.shedder = shedder;
    this.bands = bands;
    this.usual = usual;
    this.usualBand = this.bandOf(usual);
  }

  /** What `refuse` says, but for a request that met a shedder before, in whatever gate: it is asked about once. */
  refuseOnce(request: object, priority: string | undefined): ShedDecision | undefined {
    const known = request as { [MET]?: boolean };
    if (known[MET] === true) return undefined;
    known[MET] = true;
    return this.refuse(priority);
  }

  /**
   * The refusal of what comes in with a priority; undefined to let it in.
   *
   * @throws TollgateArgumentError for a priority that there is not.
   */
  refuse(priority: string | undefined): ShedDecision | undefined {
    if (this.state !== 'open' && !this.open()) return undefined;
    const band = priority === undefined ? this.usualBand : this.bandOf(priority);
    return band.sheds() ? new ShedDecision(priority ?? this.usual, this.shedder) : undefined;
  }

  /** Takes no more requests. May be called again. */
  close(): void {
    this.state = 'closed';
    this.shedder.leave(this);
  }

  private open(): boolean {
    if (this.state === 'closed') return false;
    this.state = 'open';
    this.shedder.join(this);
    return true;
  }

  private bandOf(priority: string): Band {
    const band = this.bands.get(priority);
    if (band !== undefined) return band;
    throw new TollgateArgumentError(
      `There is no priority ${show(priority)}; there are ${[...this.bands.keys()].join(', ')}.`,
    );
  }
}

/**
 * Makes a load shedder for a gate's option `shedder`.
 *
 * Above `maxUtilization` or `maxDelayMs` it refuses requests with 503, more with every sample, until both hold. The
 * lowest priority goes first; the highest is never refused. Once the load falls it admits again, little by little.
 *
 * @throws TollgateConfigError with the path of the option at fault and the mend.
 */
export function loadShedder(options: LoadShedderOptions = {}): LoadShedder {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected the shedder's options, got ${show(options)}`);
  }
  refuseUnknown(options, OPTIONS, '');
  const { maxUtilization = 0.9, maxDelayMs = 50, sampleMs = 200, restoreMs = 10_000 } = options;
  if (typeof maxUtilization !== 'number' || !(maxUtilization > 0 && maxUtilization <= 1)) {
    throw new TollgateConfigError(
      'maxUtilization',
      `expected a share of the time above 0 and up to 1, got ${show(maxUtilization)}`,
    );
  }
  const goals = {
    maxUtilization,
    maxDelayMs: parseDuration(maxDelayMs, 'maxDelayMs'),
    sampleMs: parseDuration(sampleMs, 'sampleMs'),
    restoreMs: parseDuration(restoreMs, 'restoreMs'),
  };
  if (goals.sampleMs < SHORTEST_SAMPLE_MS || goals.sampleMs > LONGEST_SAMPLE_MS) {
    throw new TollgateConfigError(
      'sampleMs',
      `expected ${SHORTEST_SAMPLE_MS} ms to ${LONGEST_SAMPLE_MS / 1_000} s, got ${show(sampleMs)}`,
    );
  }
  if (goals.restoreMs < goals.sampleMs) {
    throw new TollgateConfigError(
      'restoreMs',
      `expected no less than sampleMs (${goals.sampleMs}), since nothing changes within a sample, got ${show(restoreMs)}`,
    );
  }
  return new LoadShedder(goals, new EventLoop(goals.sampleMs));
}
