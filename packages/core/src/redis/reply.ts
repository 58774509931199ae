import { show, TollgateStoreError } from '../errors.ts';

const BYTES = Float64Array.BYTES_PER_ELEMENT;

/** A reply of the script being read, one number after the other. */
export class Reply {
  readonly at: number;
  private readonly bytes: Buffer;
  private cursor = 0;

  /** @throws TollgateStoreError, as `next` does, for what the script cannot have answered. */
  constructor(reply: unknown) {
    if (!Buffer.isBuffer(reply)) throw nonsense(reply);
    this.bytes = reply;
    this.at = this.next();
  }

  /** A whole number, or Infinity. */
  next(): number {
    const { bytes, cursor } = this;
    if (cursor + BYTES > bytes.length) throw nonsense(`${bytes.length} bytes`);
    const number = bytes.readDoubleLE(cursor);
    if (!Number.isInteger(number) && number !== Infinity) throw nonsense(number);
    this.cursor = cursor + BYTES;
    return number;
  }

  take(count: number): number[] {
    const taken: number[] = [];
    for (let i = 0; i < count; i++) taken.push(this.next());
    return taken;
  }
}

/** A proxy between here and Redis may say anything. */
function nonsense(reply: unknown): TollgateStoreError {
  const cause = new TypeError(`expected packed whole numbers, got ${show(reply)}`);
  return new TollgateStoreError('the store answered what was not asked', 0, cause);
}
