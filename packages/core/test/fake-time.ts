import { vi } from 'vitest';
import { type MemoryStore, memoryStore } from '../src/stores/memory.ts';

/** Makes timers and clocks stand still until the test moves them, from the start of the year 2026. */
export function stopTime(): void {
  vi.useFakeTimers({
    now: 1_767_225_600_000,
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  });
}

/** A store that goes by the stopped clock. */
export function stoppedStore(): MemoryStore {
  return memoryStore({ clock: () => Date.now() * 1_000 });
}

/** Moves the time, and lets everything happen that is due. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** What becomes of promises: notes in the order in which they settle, `name@ms` or `name:error`. */
export class Diary {
  readonly notes: string[] = [];
  private readonly start = Date.now();

  watch(name: string, promise: Promise<unknown>): void {
    promise.then(
      () => this.notes.push(`${name}@${Date.now() - this.start}`),
      (error: unknown) => this.notes.push(`${name}:${(error as Error).name}`),
    );
  }
}
