import { Readable } from 'node:stream';

/** A body that says something at once, and then nothing until it is told to end. */
export class Endless extends Readable {
  constructor() {
    super();
    this.push('open\n');
  }

  override _read(): void {
    // What comes next is pushed by whoever holds the stream.
  }

  say(text: string): void {
    this.push(text);
  }

  finish(): void {
    this.push(null);
  }
}
