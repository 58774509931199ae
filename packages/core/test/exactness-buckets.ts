import {
  divideUp,
  LARGEST,
  less,
  microseconds,
  min,
  type Seen,
  type Terms,
  TICKS,
} from './exactness-terms.ts';

/** The farthest that a debt may reach, 142 years. */
const HORIZON = 2n ** 52n;

const gcd = (a: bigint, b: bigint): bigint => (b === 0n ? a : gcd(b, a % b));

/** An exact fraction of units, not below 0; most are over the same `den`, so they are reduced only when they mix. */
interface Fraction {
  readonly num: bigint;
  readonly den: bigint;
}

const NOTHING: Fraction = { num: 0n, den: 1n };

function minus(a: Fraction, b: Fraction): Fraction {
  if (a.den === b.den) return { num: less(a.num, b.num), den: a.den };
  const num = less(a.num * b.den, b.num * a.den);
  const divisor = gcd(num, a.den * b.den);
  return { num: num / divisor, den: (a.den * b.den) / divisor };
}

const plus = (a: Fraction, units: bigint): Fraction => ({ num: a.num + units * a.den, den: a.den });
const isLess = (a: Fraction, b: Fraction): boolean => a.num * b.den < b.num * a.den;
const lesser = (a: Fraction, b: Fraction): Fraction => (isLess(b, a) ? b : a);
const wholeUnits = (a: Fraction): bigint => divideUp(a.num, a.den);

/** Each tick of so many microseconds gives back drain/unit of a unit, in lowest terms. */
export interface Rate {
  readonly tick: bigint;
  readonly drain: bigint;
  readonly unit: bigint;
}

interface Bucket {
  readonly owed: Fraction;
  readonly last: bigint;
  readonly unit: bigint;
  /** The time since which all charges are known. Receipts of another era are worth nothing. */
  readonly era: object;
  /** Units charged in this era; what is owed now without those of later charges was owed all the time since. */
  readonly charged: bigint;
}

type BucketReceipt = Pick<Bucket, 'era' | 'charged'>;

const NO_ERA = {};

export class BucketTerms implements Terms<Bucket, BucketReceipt> {
  readonly overdraws = true;
  readonly queues: boolean;
  readonly fresh: Bucket;
  readonly limit: bigint;
  readonly rate: Rate;
  private readonly tick: bigint;
  private readonly most: Fraction;
  private readonly perTick: Fraction;

  constructor(capacity: number, rate: number, per: number, queues: boolean) {
    this.queues = queues;
    this.limit = BigInt(capacity);
    const perUs = microseconds(per);
    for (const tick of TICKS) {
      const divisor = gcd(BigInt(rate) * tick, perUs);
      const [drain, unit] = [(BigInt(rate) * tick) / divisor, perUs / divisor];
      const full = this.limit * unit;
      const most = min(LARGEST - full, drain * (HORIZON / tick));
      if (2n * full + drain > LARGEST || full > most) continue;
      this.rate = { tick, drain, unit };
      this.tick = tick;
      this.fresh = { owed: NOTHING, last: 0n, unit, era: NO_ERA, charged: 0n };
      this.most = { num: most, den: unit };
      this.perTick = { num: BigInt(rate) * tick, den: perUs };
      return;
    }
    throw new RangeError(`${capacity} with ${rate} per ${per} ms fits at no tick`);
  }

  /** Whether so many units can be owed. */
  counts(units: number): boolean {
    return BigInt(units) * this.most.den <= this.most.num;
  }

  seen(bucket: Bucket, now: bigint): Seen<Bucket> {
    let { owed, last, era, charged } = bucket;
    const { unit } = this.rate;
    const healed = now < last;
    if (healed) last = now;
    if (bucket.unit !== unit) {
      owed = { num: wholeUnits(owed) * this.perTick.den, den: this.perTick.den };
    }
    const saturated = isLess(this.most, owed);
    if (saturated) owed = this.most;
    if (bucket.unit !== unit || saturated) [era, charged] = [{}, 0n];
    const ticks = now / this.tick - divideUp(last, this.tick);
    if (ticks > 0n) owed = minus(owed, this.drainedIn(ticks));
    if (ticks > 0n || owed.num === 0n) last = now - (now % this.tick);
    return { state: { owed, last, unit, era, charged }, healed };
  }

  whole({ owed }: Bucket): boolean {
    return owed.num === 0n;
  }

  admits({ owed }: Bucket, cost: bigint): boolean {
    return this.limit > 0n && owed.num + cost * owed.den <= this.limit * owed.den;
  }

  charge(
    bucket: Bucket,
    cost: bigint,
    _now: bigint,
  ): { readonly state: Bucket; readonly receipt: BucketReceipt } {
    const owed = plus(bucket.owed, cost);
    const anew = this.whole(bucket) || bucket.charged > LARGEST - cost;
    const before = anew ? { ...bucket, era: {}, charged: 0n } : bucket;
    const charged = before.charged + cost;
    if (isLess(this.most, owed)) {
      // Units beyond the most were never owed, so nobody can be given them back.
      const state = { ...bucket, era: {}, charged: 0n, owed: this.most };
      return { state, receipt: { era: {}, charged } };
    }
    return { state: { ...before, owed, charged }, receipt: { era: before.era, charged } };
  }

  refund(bucket: Bucket, units: bigint): Bucket {
    return this.take(bucket, { num: units, den: 1n });
  }

  giveBack(bucket: Bucket, units: bigint, receipt: BucketReceipt): Bucket | undefined {
    if (receipt.era !== bucket.era) return undefined;
    const later = bucket.charged - receipt.charged;
    if (!this.queues) {
      const least = minus(bucket.owed, { num: later, den: 1n });
      if (least.num === 0n) return undefined;
      return this.take(bucket, lesser({ num: units, den: 1n }, least));
    }
    if (later !== 0n || this.whole(bucket)) return undefined;
    const charged = bucket.charged - units;
    return { ...bucket, charged, owed: minus(bucket.owed, { num: units, den: 1n }) };
  }

  private drainedIn(ticks: bigint): Fraction {
    return { num: ticks * this.perTick.num, den: this.perTick.den };
  }

  private take(bucket: Bucket, units: Fraction): Bucket {
    const taken = lesser(units, bucket.owed);
    return { ...bucket, owed: minus(bucket.owed, taken) };
  }
}
