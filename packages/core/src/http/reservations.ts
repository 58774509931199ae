import type { ServerResponse } from 'node:http';
import type { BookedCharge } from '../booking.ts';
import type { Decision } from '../decision.ts';
import type { Store } from '../store.ts';
import { whenOver } from './leaving.ts';
import { openBy } from './open-reservations.ts';

/** Why one who waits may ask again: an outcome is known here, or it is time to see what is known elsewhere. */
export type Woken = 'outcome' | 'look';

interface Waiter {
  readonly ticket: number;
  wake(woken: Woken | undefined): void;
}

interface Line {
  /** Reservations made here whose outcome is not known yet. */
  open: number;
  /** Those who wait, by their tickets. */
  readonly waiting: Waiter[];
  /** Runs while other processes have reservations, of whose outcomes nobody tells. */
  timer: NodeJS.Timeout | undefined;
  lookMs: number;
}

/** How soon the store is looked at for what other processes gave back; less and less often while that is nothing. */
const FIRST_LOOK_MS = 20;
const LAST_LOOK_MS = 250;
const SLOWER = 1.5;

/** A limit and a key of it. */
type Named = Pick<BookedCharge, 'name' | 'key'>;

function lineOf({ name, key }: Named): string {
  return `${name}\n${key}`;
}

/** What the gates of a store have in common. */
interface Lines {
  readonly byName: Map<string, Line>;
  tickets: number;
}

const linesOf = new WeakMap<Store, Lines>();

/**
 * Units that are reserved but may be given back, for limits that count only some outcomes. When a budget is reserved
 * but not spent, further requests wait in order until outcomes are known, rather than being refused for what others
 * may not have done. Outcomes of this process wake the first in line; while other processes have reservations too, it
 * looks now and then.
 */
export class Reservations {
  private readonly lines: Lines;
  private readonly mostWaiting: number;
  /** How those who wait at this gate leave their lines. */
  private readonly waiting = new Set<() => void>();

  constructor(store: Store, mostWaiting: number) {
    this.lines = linesOf.get(store) ?? { byName: new Map(), tickets: 0 };
    linesOf.set(store, this.lines);
    this.mostWaiting = mostWaiting;
  }

  open(charge: BookedCharge): void {
    const line = this.lineAt(charge);
    line.open++;
    line.lookMs = FIRST_LOOK_MS;
  }

  /** An outcome is known: the first in line may ask again, and all when nothing is left to wait for. */
  close(charge: BookedCharge): void {
    const line = this.lines.byName.get(lineOf(charge));
    if (line === undefined) return;
    line.open--;
    const woken = line.open === 0 ? line.waiting.splice(0) : line.waiting.splice(0, 1);
    for (const waiter of woken) waiter.wake('outcome');
    this.tidy(charge);
  }

  /** Nobody waits any longer. */
  end(): void {
    for (const leave of this.waiting) leave();
  }

  /** Wakes the first in line in place of one who was woken and leaves. */
  pass(of: Named, woken: Woken): void {
    this.lines.byName.get(lineOf(of))?.waiting.shift()?.wake(woken);
    this.tidy(of);
  }

  /** A place in every line, behind all who came before. */
  ticket(): number {
    return this.lines.tickets++;
  }

  /** Whether others wait for the budget that a charge asks for. */
  isAwaited(charge: BookedCharge): boolean {
    return (this.lines.byName.get(lineOf(charge))?.waiting.length ?? 0) > 0;
  }

  /** Whether what refuses may yet be given back, and there is room to wait for it. */
  mayChange(decision: Decision): boolean {
    if (this.waiting.size >= this.mostWaiting) return false;
    return decision.verdicts.every(
      (verdict) =>
        verdict.allowed ||
        verdict.shadow ||
        this.openHere(verdict) > 0 ||
        openBy(decision, verdict) > 0,
    );
  }

  /**
   * Waits in line for an outcome, for `ms` at most; undefined where it may not. Resolves to undefined when the time is
   * over or the client has left.
   *
   * @param decision what refused it, if anything has yet.
   */
  turn(
    of: Named,
    ms: number,
    ticket: number,
    response: ServerResponse,
    decision?: Decision,
  ): Promise<Woken | undefined> | undefined {
    if (ms <= 0 || this.waiting.size >= this.mostWaiting) return undefined;
    const line = this.lineAt(of);
    return new Promise((resolve) => {
      const wake = (woken: Woken | undefined): void => {
        clearTimeout(timer);
        stay();
        this.waiting.delete(leave);
        resolve(woken);
      };
      const waiter = { ticket, wake };
      const leave = (): void => {
        line.waiting.splice(line.waiting.indexOf(waiter), 1);
        wake(undefined);
        this.tidy(of);
      };
      this.waiting.add(leave);
      const timer = setTimeout(leave, ms);
      const stay = whenOver(response, leave);
      // One who was woken in vain stands before those who came later.
      const later = line.waiting.findIndex((other) => other.ticket > ticket);
      line.waiting.splice(later === -1 ? line.waiting.length : later, 0, waiter);
      if (decision !== undefined && openBy(decision, of) > line.open) this.lookSoon(of, line);
    });
  }

  private openHere(of: Named): number {
    return this.lines.byName.get(lineOf(of))?.open ?? 0;
  }

  private lineAt(of: Named): Line {
    const id = lineOf(of);
    let line = this.lines.byName.get(id);
    if (line === undefined) {
      line = { open: 0, waiting: [], timer: undefined, lookMs: FIRST_LOOK_MS };
      this.lines.byName.set(id, line);
    }
    return line;
  }

  /** Not all processes at once: each somewhat earlier or later. */
  private lookSoon(of: Named, line: Line): void {
    if (line.timer !== undefined) return;
    line.timer = setTimeout(
      () => {
        line.timer = undefined;
        this.pass(of, 'look');
      },
      line.lookMs * (0.5 + Math.random()),
    );
    line.lookMs = Math.min(LAST_LOOK_MS, line.lookMs * SLOWER);
  }

  private tidy(of: Named): void {
    const id = lineOf(of);
    const line = this.lines.byName.get(id);
    if (line === undefined || line.open > 0 || line.waiting.length > 0) return;
    clearTimeout(line.timer);
    this.lines.byName.delete(id);
  }
}
