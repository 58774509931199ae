import {
  createLimiter,
  type Decision,
  type FileLimit,
  type Limiter,
  limiterLimits,
  type MemoryStore,
  memoryStore,
} from '@tollgate/core';
import type { LogRequest } from '../log/request.ts';
import { LimitJudge, replayedLimits } from './limit-judge.ts';
import type { LimitReport, Timelines } from './report.ts';
import { Slots } from './slots.ts';
import { Timeline } from './timeline.ts';

const ADMITTED = 0;
const REFUSED = 1;
/** Series of each limit, behind the two of all together: its requests, and those it refused. */
const PER_LIMIT = 2;

/** Runs limits over requests in order of time, with the log's clock in place of the system's, and counts. */
export class Judge {
  requests = 0;
  admitted = 0;
  unlimited = 0;
  from: number | undefined;
  to: number | undefined;
  private now = 0;
  private readonly limits: readonly LimitJudge[];
  private readonly limiter: Limiter<MemoryStore>;
  private readonly timeline: Timeline;
  private readonly slots = new Slots();
  private readonly setTime = (time: number): void => void (this.now = time);
  private readonly hasShadows: boolean;
  private readonly hasSlots: boolean;
  private readonly compare: boolean;

  constructor(limits: readonly FileLimit[], compare: boolean) {
    const clock = (): number => this.now;
    const replayed = replayedLimits(limits);
    this.limits = limits.map(
      (source, i) => new LimitJudge(source, replayed[i] as (typeof replayed)[number], compare),
    );
    this.limiter = createLimiter({
      store: memoryStore({ clock }),
      limits: limiterLimits(limits),
    });
    this.timeline = new Timeline(2 + PER_LIMIT * limits.length);
    this.hasShadows = limits.some(({ mode }) => mode === 'shadow');
    this.hasSlots = this.limits.some(({ holdsSlots }) => holdsSlots);
    this.compare = compare;
  }

  /** Judges a request at a time, in microseconds, that is no earlier than the one before. */
  judge(request: LogRequest, time: number): void {
    if (this.hasSlots) this.slots.release(time, this.setTime);
    this.now = time;
    this.requests++;
    this.from ??= time;
    this.to = time;
    const bucket = this.timeline.bucket(time);
    const keys: Record<string, string | undefined> = {};
    let applies = false;
    for (let i = 0; i < this.limits.length; i++) {
      const limit = this.limits[i] as LimitJudge;
      const key = limit.keyOf(request);
      keys[limit.limit.name] = key;
      if (key === undefined) continue;
      applies = true;
      limit.requests++;
      this.timeline.add(2 + PER_LIMIT * i, bucket);
      if (this.compare) limit.rival(key, time);
    }
    if (!applies) this.unlimited++;
    const decision = this.limiter.consume(keys);
    if (decision.allowed) this.admitted++;
    this.timeline.add(decision.allowed ? ADMITTED : REFUSED, bucket);
    if (!decision.allowed || this.hasShadows) this.countRefusals(decision, keys, time, bucket);
    if (this.hasSlots && decision.allowed && request.duration !== undefined) {
      this.slots.hold(decision, time + request.duration);
    }
  }

  private countRefusals(
    decision: Decision,
    keys: Readonly<Record<string, string | undefined>>,
    time: number,
    bucket: number,
  ): void {
    const { verdicts } = decision;
    let next = 0;
    for (let i = 0; i < this.limits.length; i++) {
      const limit = this.limits[i] as LimitJudge;
      const key = keys[limit.limit.name];
      if (key === undefined) continue;
      // Verdicts come in the limits' order, one for each that applied.
      if (verdicts[next++]?.allowed !== false) continue;
      limit.refuse(key, time);
      this.timeline.add(2 + PER_LIMIT * i + 1, bucket);
    }
  }

  limitReports(top: number): LimitReport[] {
    return this.limits.map((limit) => limit.report(top));
  }

  timelines(): Timelines {
    const { timeline } = this;
    return {
      fromMs: timeline.from / 1_000,
      bucketMs: timeline.width / 1_000,
      admitted: timeline.counts(ADMITTED),
      refused: timeline.counts(REFUSED),
      limits: Object.fromEntries(
        this.limits.map(({ limit }, i) => [
          limit.name,
          {
            requests: timeline.counts(2 + PER_LIMIT * i),
            refused: timeline.counts(2 + PER_LIMIT * i + 1),
          },
        ]),
      ),
    };
  }
}
