/**
 * The six algorithms as the oracle sees them: what is remembered is never changed but replaced, numbers are BigInt
 * and fractions are fractions. Nothing here says how long to wait; the oracle finds that out by asking `admits` at
 * other instants.
 */
export interface Terms<S = unknown, R = unknown> {
  readonly limit: bigint;
  /** Whether a charge beyond the limit becomes debt. */
  readonly overdraws: boolean;
  /** Whether an admitted request is held until what was owed before it is gone. */
  readonly queues: boolean;
  readonly fresh: S;
  /** What is remembered, as it stands at `now`. `offset` is how far the key's windows are ahead of the epoch's. */
  seen(state: S, now: bigint, offset: bigint): Seen<S>;
  /** Whether nothing is owed. The methods from here on take what was `seen` at the same `now`. */
  whole(state: S): boolean;
  admits(state: S, cost: bigint, now: bigint): boolean;
  charge(
    state: S,
    cost: bigint,
    now: bigint,
    offset: bigint,
  ): { readonly state: S; readonly receipt: R };
  refund(state: S, units: bigint, now: bigint): S;
  /** Undefined where nothing of the charge is owed any more. */
  giveBack(state: S, units: bigint, receipt: R, now: bigint): S | undefined;
}

export interface Seen<S> {
  readonly state: S;
  /** Whether the clock had stepped back. */
  readonly healed: boolean;
}

export const LARGEST: bigint = 2n ** 53n - 1n;
/** Microseconds of the ticks that time is counted in, finest first. */
export const TICKS: readonly bigint[] = [1n, 1_000n, 1_000_000n];

export const microseconds = (ms: number): bigint => BigInt(Math.round(ms * 1_000));
export const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);
export const less = (a: bigint, b: bigint): bigint => (a > b ? a - b : 0n);
export const divideUp = (a: bigint, b: bigint): bigint => (a + b - 1n) / b;
