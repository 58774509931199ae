/** An option that cannot work, found at start-up. `path` names the option, the message says the mend. */
export class TollgateConfigError extends TypeError {
  override readonly name = 'TollgateConfigError';
  readonly code = 'TOLLGATE_CONFIG';
  /** Where the option stands, such as `limits[0].policy.window`; empty for the value as a whole. */
  readonly path: string;

  constructor(path: string, problem: string) {
    super(path === '' ? problem : `${path}: ${problem}`);
    this.path = path;
  }
}

/** An argument of a call that cannot work, such as a negative cost or an empty key. */
export class TollgateArgumentError extends TypeError {
  override readonly name = 'TollgateArgumentError';
  readonly code = 'TOLLGATE_ARGUMENT';
}

/** The limiter was closed before or during the call. */
export class TollgateClosedError extends Error {
  override readonly name = 'TollgateClosedError';
  readonly code = 'TOLLGATE_CLOSED';

  constructor(message = 'The limiter is closed. Make a new one with createLimiter().') {
    super(message);
  }
}

/** The store could not answer in time, or at all. What it was asked may have been carried out nevertheless. */
export class TollgateStoreError extends Error {
  override readonly name = 'TollgateStoreError';
  readonly code = 'TOLLGATE_STORE';
  readonly #retryAfter: () => number;

  /** @param retryAfterMs may be a function, of an error that many calls fail with. */
  constructor(problem: string, retryAfterMs: number | (() => number), cause?: unknown) {
    super(problem, cause === undefined ? undefined : { cause });
    this.#retryAfter = typeof retryAfterMs === 'function' ? retryAfterMs : () => retryAfterMs;
  }

  /** How long until the store is tried again, in milliseconds; 0 for now. */
  get retryAfterMs(): number {
    return this.#retryAfter();
  }
}

/** Shows a value in a message: short, quoted and with its type where that is not plain. */
export function show(value: unknown): string {
  if (typeof value === 'string') {
    return `${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)} (string)`;
  }
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  return typeof value === 'function' ? 'a function' : String(value as number | undefined);
}
