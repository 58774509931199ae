import type { Reason, Verdict } from './verdict.ts';
import type { Charge } from './store.ts';

/** Keys known to be exhausted that are remembered. */
const MOST_KNOWN = 10_000;

/** A limit and a key of it. */
export interface Line {
  readonly name: string;
  readonly key: string;
}

/** What the store said of a key, with its moments on the monotonic clock. */
interface Known {
  readonly cost: number;
  readonly remaining: number;
  readonly reason: Reason;
  readonly nextAt: number;
  readonly resetAt: number;
  readonly retryAt: number;
}

/**
 * Which keys the store said have nothing to spare, and until when. Slots are left out: they may be released at any
 * moment.
 */
export class Exhausted {
  private readonly known = new Map<string, Known>();

  /** Takes in what the store says. Its last word counts. */
  remember(verdicts: readonly Verdict[]): void {
    for (const verdict of verdicts) {
      const exhausted = isExhausted(verdict);
      if (!exhausted && this.known.size === 0) continue;
      const line = idOf(verdict);
      this.known.delete(line);
      if (!exhausted) continue;
      if (this.known.size >= MOST_KNOWN) {
        this.known.delete(this.known.keys().next().value ?? '');
      }
      this.known.set(line, asKnown(verdict));
    }
  }

  forget(lines: readonly Line[]): void {
    if (this.known.size > 0) for (const line of lines) this.known.delete(idOf(line));
  }

  forgetLimit(name: string): void {
    for (const line of this.known.keys()) {
      if (line.startsWith(`${name}\n`)) this.known.delete(line);
    }
  }

  /** What is known against admitting a charge now, as a change to the verdict; undefined for nothing. */
  until(
    charge: Pick<Charge, 'name' | 'key' | 'cost'>,
  ): ((verdict: Verdict) => Partial<Verdict>) | undefined {
    const line = idOf(charge);
    const known = this.known.get(line);
    if (known === undefined) return undefined;
    const { cost, remaining, reason } = known;
    const now = performance.now();
    if (Math.max(known.retryAt, known.nextAt) <= now) this.known.delete(line);
    if (reason !== 'banned' && (charge.cost === 0 || charge.cost <= remaining)) return undefined;
    // A lesser cost than the one refused waits for the next unit at least.
    const at = reason === 'banned' || charge.cost >= cost ? known.retryAt : known.nextAt;
    if (at <= now) return undefined;
    return (verdict) => ({
      allowed: false,
      reason: verdict.allowed ? reason : verdict.reason,
      remaining: Math.min(remaining, verdict.remaining),
      retryAfterMs: Math.max(at - now, verdict.retryAfterMs),
      nextAfterMs: Math.max(known.nextAt - now, verdict.nextAfterMs),
      resetAfterMs: Math.max(known.resetAt - now, verdict.resetAfterMs),
    });
  }
}

/** A name has no line break, so no two lines are named alike. */
function idOf({ name, key }: Line): string {
  return `${name}\n${key}`;
}

function isExhausted(verdict: Verdict): boolean {
  const { policy, reason, allowed, remaining, nextAfterMs, retryAfterMs } = verdict;
  if (reason === 'banned') return true;
  if (policy.algorithm === 'concurrency') return false;
  return allowed ? remaining === 0 && nextAfterMs !== Infinity : retryAfterMs !== Infinity;
}

function asKnown(verdict: Verdict): Known {
  const { allowed, remaining, cost, reason, nextAfterMs, resetAfterMs, retryAfterMs } = verdict;
  const now = performance.now();
  return {
    // The least cost that was, or would have been, refused.
    cost: allowed ? 1 : cost,
    remaining,
    reason: allowed ? 'limited' : reason,
    nextAt: now + nextAfterMs,
    resetAt: now + resetAfterMs,
    retryAt: now + (allowed ? nextAfterMs : retryAfterMs),
  };
}
