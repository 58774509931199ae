/** What a function of the options can do wrong, told so that a test can name it. */
export interface Misbehaviour {
  readonly how: string;
  readonly act: () => unknown;
}

function raise(value: unknown): never {
  throw value;
}

/** Failures that are the same for every function. `throw undefined` must not be taken for no error. */
export const FAILURES: readonly Misbehaviour[] = [
  { how: 'throws an error', act: () => raise(new Error('broken')) },
  { how: 'throws a text', act: () => raise('broken') },
  { how: 'throws undefined', act: () => raise(undefined) },
  { how: 'throws null', act: () => raise(null) },
  { how: 'rejects', act: () => Promise.reject(new Error('broken')) },
  { how: 'rejects with undefined', act: () => Promise.reject(undefined) },
  { how: 'rejects later', act: async () => raise(await Promise.resolve('broken')) },
  { how: 'never settles', act: () => new Promise(() => undefined) },
];

/** Values that a function must not return, at once or later. */
export function returning(...values: readonly unknown[]): Misbehaviour[] {
  return values.flatMap((value) => [
    { how: `returns ${shown(value)}`, act: () => value },
    { how: `resolves to ${shown(value)}`, act: async () => value },
  ]);
}

function shown(value: unknown): string {
  return typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value));
}
