import type { Progress } from './replay/replay.ts';

const WIDTH = 30;
const EVERY_MS = 100;
/** A reading that is over sooner needs no bar. */
const QUIET_MS = 500;
const MIB = 2 ** 20;

/** A progress bar on one line of a terminal. */
export class ProgressBar {
  private readonly stream: NodeJS.WritableStream & { readonly isTTY?: boolean };
  private readonly startedAt = performance.now();
  private drawnAt = 0;

  constructor(stream: NodeJS.WritableStream & { readonly isTTY?: boolean }) {
    this.stream = stream;
  }

  /** Draws, at most ten times a second, where the stream is a terminal. */
  show(progress: Progress): void {
    const now = performance.now();
    if (this.stream.isTTY !== true || now - this.startedAt < QUIET_MS) return;
    if (now - this.drawnAt < EVERY_MS) return;
    this.drawnAt = now;
    this.stream.write(`\r\u001B[K${progressText(progress)}`);
  }

  clear(): void {
    if (this.drawnAt > 0) this.stream.write('\r\u001B[K');
  }
}

export function progressText({ bytes, allBytes, lines }: Progress): string {
  const read = `${(bytes / MIB).toFixed(0)} MiB, ${lines.toLocaleString('en')} lines`;
  if (allBytes === undefined || allBytes === 0) return read;
  const share = Math.min(1, bytes / allBytes);
  const done = Math.round(share * WIDTH);
  const bar = '█'.repeat(done) + '░'.repeat(WIDTH - done);
  return `${bar} ${(share * 100).toFixed(0).padStart(3)} %  ${read}`;
}
