import type { Receipt, Rule } from '../algorithm.ts';
import type { SlidingLogPolicy } from '../policy.ts';

/** What a sliding log remembers: one instant per unit, in µs, oldest first. */
type LogState = number[];

/** Sliding log: exact, at the price of one timestamp per unit. A charge beyond the limit is refused. */
export class SlidingLogRule implements Rule {
  readonly policy: SlidingLogPolicy;
  readonly quota: number;
  readonly size = undefined;
  readonly overdraws = false;
  readonly holdsSlots = false;
  readonly spreads = false;
  readonly queues = false;
  readonly refusal = 'limited';
  private readonly window: number;

  constructor(policy: SlidingLogPolicy) {
    this.policy = policy;
    this.quota = policy.limit;
    this.window = Math.round(policy.window * 1_000);
  }

  offset(_key: string): number {
    return 0;
  }

  roll(log: LogState, now: number): boolean {
    let expired = 0;
    while (expired < log.length && instant(log, expired) <= now - this.window) expired++;
    if (expired === 1) log.shift();
    else if (expired > 1) log.splice(0, expired);
    let future = log.length;
    while (future > 0 && instant(log, future - 1) > now) future--;
    const healed = future < log.length;
    if (healed) log.fill(now, future);
    return healed;
  }

  wait(log: LogState, cost: number, now: number): number {
    if (cost > this.quota || this.quota === 0) return Infinity;
    const tooMany = log.length + cost - this.quota;
    return tooMany <= 0 ? 0 : instant(log, tooMany - 1) + this.window - now;
  }

  delay(_log: LogState, _now: number): number {
    return 0;
  }

  remaining(log: LogState, _now: number): number {
    return Math.max(0, this.quota - log.length);
  }

  resetAfter(log: LogState, now: number): number {
    return log.length === 0 ? 0 : instant(log, log.length - 1) + this.window - now;
  }

  add(log: LogState, cost: number, now: number): Receipt {
    for (let unit = 0; unit < cost; unit++) log.push(now);
    return [now];
  }

  /** Newest first. */
  refund(log: LogState, units: number, _now: number): void {
    log.length = Math.max(0, log.length - units);
  }

  /** The entries of the charge, as far as they are still in the log. */
  giveBack(log: LogState, units: number, _now: number, receipt: Receipt): void {
    const first = log.indexOf(receipt[0] as number);
    if (first === -1) return;
    let end = first;
    while (end < log.length && log[end] === receipt[0]) end++;
    log.splice(first, Math.min(units, end - first));
  }
}

/** The instant at an index that the caller has checked. */
function instant(log: LogState, index: number): number {
  return log[index] as number;
}
