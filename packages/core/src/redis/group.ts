import type { Reply } from './reply.ts';
import type { ScriptCall } from './script-call.ts';

/** Something the script is asked. */
export interface Item<T> {
  /** The keys that it cannot do without. */
  readonly keys: readonly string[];
  write(call: ScriptCall): void;
  /** Reads its part of the reply. */
  read(reply: Reply): T;
  /** Whether `other` may be asked together with this one: the same of the same key. Such an item has `fold`, too. */
  isLike?(other: Item<unknown>): boolean;
  /** Asks for several that are alike, this one among them. */
  fold?(alike: readonly Item<T>[]): Item<readonly T[]>;
}

/** Who asks an item. */
export interface Caller<T> {
  readonly item: Item<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** How many may be asked as one. */
const MOST_ALIKE = 256;

/** Callers whose items are alike, and asked as one. */
export class Group<T> {
  /** When the first of them asked. */
  readonly madeAt: number;
  private readonly first: Caller<T>;
  /** All of them, where there is more than the first. */
  private all: Caller<T>[] | undefined = undefined;
  private folded: Item<readonly T[]> | undefined = undefined;

  constructor(first: Caller<T>, madeAt: number) {
    this.first = first;
    this.madeAt = madeAt;
  }

  get keys(): readonly string[] {
    return this.first.item.keys;
  }

  /** Adds a caller, unless its item is another or there are too many. */
  takes(caller: Caller<T>): boolean {
    if (caller.item.isLike?.(this.first.item) !== true) return false;
    this.all ??= [this.first];
    return this.all.length < MOST_ALIKE && this.all.push(caller) > 0;
  }

  write(call: ScriptCall): void {
    const { item } = this.first;
    this.folded ??= this.all && item.fold?.(this.all.map((caller) => caller.item));
    (this.folded ?? item).write(call);
  }

  /** Tells the callers their parts of the reply. */
  answer(reply: Reply): void {
    const { first, all, folded } = this;
    if (all === undefined || folded === undefined) return first.resolve(first.item.read(reply));
    const answers = folded.read(reply);
    for (let i = 0; i < all.length; i++) all[i]?.resolve(answers[i] as T);
  }

  /** Those who have their answer already are not told. */
  fail(error: unknown): void {
    if (this.all === undefined) return this.first.reject(error);
    for (const { reject } of this.all) reject(error);
  }
}
