import type { BookedCharge } from './booking.ts';

/** A slot is renewed this often within its timeout, so that one late renewal loses nothing. */
const RENEWALS = 3;
/** setInterval takes 31 bits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * The concurrency slots this process holds. While there are any, one timer renews them, so that a long request keeps
 * its slot; it does not keep the process alive.
 */
export class HeldSlots {
  private readonly held = new Set<BookedCharge>();
  private readonly renew: (held: readonly BookedCharge[]) => void;
  private timer: NodeJS.Timeout | undefined;
  private everyMs = Infinity;

  constructor(renew: (held: readonly BookedCharge[]) => void) {
    this.renew = renew;
  }

  add(slots: readonly BookedCharge[]): void {
    for (const slot of slots) {
      this.held.add(slot);
      const { policy } = slot.rule;
      if (policy.algorithm !== 'concurrency') continue;
      const everyMs = Math.min(Math.max(1, policy.slotTimeout / RENEWALS), LONGEST_TIMER_MS);
      if (everyMs < this.everyMs) this.start(everyMs);
    }
  }

  delete(slots: readonly BookedCharge[]): void {
    for (const slot of slots) this.held.delete(slot);
    if (this.held.size === 0) this.stop();
  }

  all(): BookedCharge[] {
    return [...this.held];
  }

  private start(everyMs: number): void {
    this.stop();
    this.everyMs = everyMs;
    this.timer = setInterval(() => this.renew(this.all()), everyMs);
    this.timer.unref();
  }

  private stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.everyMs = Infinity;
  }
}
