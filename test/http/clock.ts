import { type MemoryStore, memoryStore } from '@tollgate/core';

/** The start of a minute and of an hour, in milliseconds since the epoch. */
export const START = 1_800_000_000_000;

/** A memory store whose time stands still until it is told to pass. */
export class Clock {
  /** In integer microseconds since the epoch. */
  readonly now = (): number => this.micros;
  readonly store: MemoryStore = memoryStore({ clock: this.now });
  private micros = START * 1_000;

  /** Goes to this many milliseconds after the start. */
  at(ms: number): void {
    this.micros = START * 1_000 + Math.round(ms * 1_000);
  }

  pass(ms: number): void {
    this.micros += Math.round(ms * 1_000);
  }
}
