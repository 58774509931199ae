/** A clock that stands still until it is moved. It starts with the year 2026: at the start of any window up to a day. */
export class HandClock {
  us = 1_767_225_600_000_000;

  /** Integer microseconds since the epoch, as a store asks for them. */
  readonly read = (): number => this.us;

  advance(ms: number): void {
    this.us += Math.round(ms * 1_000);
  }
}
