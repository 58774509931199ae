/** How often a limit refused a key. */
export interface RefusedKey {
  readonly limit: string;
  /** True of a limit in shadow mode: so often it would have refused the key, and did not. */
  readonly shadow: boolean;
  /** As `logKeys` shows it: empty where that is false. One of more than 256 bytes is a hash, as it is in the store. */
  readonly key: string;
  /** At least so often. */
  readonly count: number;
  /** At most `count` + `errorBound` times, as far as the counts arrived: keys refused less make room for new ones. */
  readonly errorBound: number;
  /** When it was refused first and last since it has been counted, in milliseconds since the epoch. */
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  /** Refusals a minute from the first to the last, of a minute at least. */
  readonly perMinute: number;
}

/** What `mostRefused` answers: at once what this process refused, as a promise what the fleet did. */
export type MostRefused<Fleet extends boolean> = Fleet extends true
  ? Promise<readonly RefusedKey[]>
  : readonly RefusedKey[];

export interface MostRefusedOptions<Fleet extends boolean = boolean> {
  /** How many keys of each limit at most, from 1 to 200; default 20. */
  readonly count?: number;
  /** How far to look back, in whole hours from 1 to 24; default 24. Up to an hour more is counted. */
  readonly hours?: number;
  /** Whether to ask the store what all processes refused; default false, what this process did. */
  readonly fleet?: Fleet;
}

/** What one process counted of a key, or a store of all processes. */
export interface KeyTally {
  readonly key: string;
  /** At least so often, and at most `count` + `error` times. */
  readonly count: number;
  readonly error: number;
  /** Integer milliseconds since the epoch. */
  readonly firstMs: number;
  readonly lastMs: number;
}

/** The refusals of a limit that were counted for some while: the most refused keys, at most a hundred. */
export interface Tally {
  readonly name: string;
  readonly shadow: boolean;
  /** How often a key that is not among these was refused at most. */
  readonly missed: number;
  readonly keys: readonly KeyTally[];
}
