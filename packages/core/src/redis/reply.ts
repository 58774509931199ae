import { show, TollgateStoreError } from '../errors.ts';

/** A reply of the script being read, one integer after the other. */
export class Reply {
  readonly at: number;
  private readonly numbers: readonly unknown[];
  private cursor = 0;

  /** @throws TollgateStoreError, as `next` does, for what the script cannot have answered. */
  constructor(reply: unknown) {
    if (!Array.isArray(reply)) throw nonsense(reply);
    this.numbers = reply;
    this.at = this.next();
  }

  next(): number {
    const said = this.numbers[this.cursor++];
    const number = typeof said === 'string' ? Number(said) : said;
    if (typeof number !== 'number' || !Number.isInteger(number)) throw nonsense(said);
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
  const cause = new TypeError(`expected whole numbers, got ${show(reply)}`);
  return new TollgateStoreError('the store answered what was not asked', 0, cause);
}
