/** A value, or a promise of it: what a synchronous store answers at once, others answer later. */
export type MaybePromise<T> = T | Promise<T>;

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | undefined | null)?.then === 'function';
}

/** Goes on with a value at once, and with a promise when it resolves. */
export function andThen<T, U>(
  value: MaybePromise<T>,
  use: (value: T) => MaybePromise<U>,
): MaybePromise<U> {
  return isPromise(value) ? value.then(use) : use(value);
}

/** Done when all are: at once when none has to be waited for. */
export function allDone(calls: readonly MaybePromise<void>[]): MaybePromise<void> {
  const pending = calls.filter((call) => isPromise(call));
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => undefined);
}

/** All values, in order: at once when none has to be waited for. */
export function allOf<T>(values: readonly MaybePromise<T>[]): MaybePromise<readonly T[]> {
  for (const value of values) {
    if (isPromise(value)) return Promise.all(values.map((each) => Promise.resolve(each)));
  }
  return values as readonly T[];
}
