import type { ServerResponse } from 'node:http';
import type { Decision } from '../decision.ts';
import type { BookedCharge } from '../booking.ts';
import { whenOver } from './leaving.ts';

interface Line {
  /** Reservations whose outcome is not known yet. */
  open: number;
  /** Those who wait, by their tickets. */
  readonly waiting: { readonly ticket: number; wake(woken: boolean): void }[];
}

/** A limit and a key of it. */
type Named = Pick<BookedCharge, 'name' | 'key'>;

function lineOf({ name, key }: Named): string {
  return `${name}\n${key}`;
}

/**
 * Units that are reserved but may be given back, for limits that count only some outcomes. When a budget is reserved
 * but not spent, further requests wait in order until outcomes are known, rather than being refused for what others
 * may not have done.
 */
export class Reservations {
  private readonly lines = new Map<string, Line>();
  private readonly mostWaiting: number;
  private waiting = 0;
  private tickets = 0;

  constructor(mostWaiting: number) {
    this.mostWaiting = mostWaiting;
  }

  open(charge: BookedCharge): void {
    const id = lineOf(charge);
    const line = this.lines.get(id);
    if (line === undefined) this.lines.set(id, { open: 1, waiting: [] });
    else line.open++;
  }

  /** An outcome is known: the first in line may ask again, and all when nothing is left to wait for. */
  close(charge: BookedCharge): void {
    const id = lineOf(charge);
    const line = this.lines.get(id);
    if (line === undefined) return;
    line.open--;
    const woken = line.open === 0 ? line.waiting.splice(0) : line.waiting.splice(0, 1);
    if (line.open === 0) this.lines.delete(id);
    for (const waiter of woken) waiter.wake(true);
  }

  /** Wakes the first in line in place of one who was woken and leaves. */
  pass(of: Named): void {
    this.lines.get(lineOf(of))?.waiting.shift()?.wake(true);
  }

  /** A place in every line, behind all who came before. */
  ticket(): number {
    return this.tickets++;
  }

  /** Whether others wait for the budget that a charge asks for. */
  isAwaited(charge: BookedCharge): boolean {
    return (this.lines.get(lineOf(charge))?.waiting.length ?? 0) > 0;
  }

  /** Whether what refuses may yet be given back, and there is room to wait for it. */
  mayChange(decision: Decision): boolean {
    if (this.waiting >= this.mostWaiting) return false;
    return decision.verdicts.every(
      (verdict) => verdict.allowed || verdict.shadow || this.lines.has(lineOf(verdict)),
    );
  }

  /** Waits in line for an outcome. Resolves to false when `ms` have passed, nothing is open or the client has left. */
  turn(of: Named, ms: number, ticket: number, response: ServerResponse): Promise<boolean> {
    const line = this.lines.get(lineOf(of));
    if (line === undefined || ms <= 0 || this.waiting >= this.mostWaiting) {
      return Promise.resolve(false);
    }
    this.waiting++;
    return new Promise((resolve) => {
      const wake = (woken: boolean): void => {
        clearTimeout(timer);
        stay();
        this.waiting--;
        resolve(woken);
      };
      const waiter = { ticket, wake };
      const leave = (): void => {
        line.waiting.splice(line.waiting.indexOf(waiter), 1);
        wake(false);
      };
      const timer = setTimeout(leave, ms);
      const stay = whenOver(response, leave);
      // One who was woken in vain stands before those who came later.
      const later = line.waiting.findIndex((other) => other.ticket > ticket);
      line.waiting.splice(later === -1 ? line.waiting.length : later, 0, waiter);
    });
  }
}
