import { performance } from 'node:perf_hooks';

/** When something is over, on the monotonic clock, if it is not removed before. */
export class Deadline {
  /** Its neighbours among those that are awaited. */
  earlier: Deadline | undefined = undefined;
  later: Deadline | undefined = undefined;
  readonly at: number;
  isOver = false;
  private readonly expired: () => void;

  constructor(at: number, expired: () => void) {
    this.at = at;
    this.expired = expired;
  }

  expire(): void {
    this.isOver = true;
    this.expired();
  }
}

/**
 * Awaits deadlines by one timer, which stays set when the one that it was set for is removed: to set a timer for each
 * call, and to clear it, would cost more than all else. It keeps the process alive only while a deadline is awaited.
 */
export class Deadlines {
  private first: Deadline | undefined;
  private last: Deadline | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** When the timer rings. */
  private ringsAt = Infinity;

  /** @param expired is told when it is over. */
  add(at: number, expired: () => void): Deadline {
    const deadline = new Deadline(at, expired);
    const { last } = this;
    deadline.earlier = last;
    this.last = deadline;
    if (last === undefined) {
      this.first = deadline;
      this.timer?.ref();
    } else last.later = deadline;
    if (at < this.ringsAt) this.set(at);
    return deadline;
  }

  /** Of one that is not over. It is left without neighbours, since V8 would keep those of one that has grown old. */
  remove(deadline: Deadline): void {
    const { earlier, later } = deadline;
    if (earlier === undefined) this.first = later;
    else earlier.later = later;
    if (later === undefined) this.last = earlier;
    else later.earlier = earlier;
    deadline.earlier = deadline.later = undefined;
    if (this.first === undefined) this.timer?.unref();
  }

  private set(at: number): void {
    clearTimeout(this.timer);
    this.ringsAt = at;
    this.timer = setTimeout(() => this.ring(), at - performance.now());
  }

  private ring(): void {
    // What has arrived while this process was busy is read first.
    const now = performance.now();
    setImmediate(() => this.expire(now));
  }

  private expire(now: number): void {
    this.ringsAt = Infinity;
    let next = Infinity;
    for (let deadline = this.first; deadline !== undefined;) {
      const { later } = deadline;
      if (deadline.at <= now) {
        this.remove(deadline);
        deadline.expire();
      } else if (deadline.at < next) next = deadline.at;
      deadline = later;
    }
    if (next < this.ringsAt) this.set(next);
  }
}
