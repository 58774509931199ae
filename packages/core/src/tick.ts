/**
 * Exact time. Every decision is made in integers below 2^53, counted in the finest tick at which all of a
 * policy's products fit. Times are microseconds outside the tick arithmetic.
 */
export const LARGEST: number = Number.MAX_SAFE_INTEGER;

const TICKS = [1, 1_000, 1_000_000] as const;

/** The farthest a state may lie ahead, 142 years, so that a clock reading plus a wait stays exact. */
const HORIZON_US = 2 ** 52;

function gcd(a: number, b: number): number {
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

/** A rate as a fraction in lowest terms: every tick gives back `drain / unit` of a unit. */
export interface DrainRate {
  /** Microseconds in a tick. */
  readonly tick: number;
  readonly drain: number;
  readonly unit: number;
  /** The largest debt, in 1/unit, with which a quota can still be added exactly. */
  readonly mostDebt: number;
}

/**
 * The exact form of `rate` units per `perUs` microseconds for a bucket of `capacity` units,
 * or undefined when it fits at no tick: 2 · capacity · unit + drain must stay below 2^53.
 */
export function drainRate(capacity: number, rate: number, perUs: number): DrainRate | undefined {
  const common = gcd(rate, perUs);
  for (const tick of TICKS) {
    const inTick = gcd(tick, perUs / common);
    const drain = (rate / common) * (tick / inTick);
    const unit = perUs / common / inTick;
    const mostDebt = Math.min(LARGEST - capacity * unit, drain * Math.floor(HORIZON_US / tick));
    if (2 * capacity * unit + drain <= LARGEST && capacity * unit <= mostDebt) {
      return { tick, drain, unit, mostDebt };
    }
  }
  return undefined;
}

/**
 * The finest tick that divides a window and at which limit · window stays below 2^53, or undefined.
 */
export function windowTick(limit: number, windowUs: number): number | undefined {
  return TICKS.find((tick) => windowUs % tick === 0 && limit * (windowUs / tick) <= LARGEST);
}

/** Digits that a long division takes at a time, so that a remainder below 2^45 times this stays exact. */
const DIGIT = 128;

/** ceil(units · part / whole), exactly, for a part of a whole below 2^45, also where the product is beyond 2^53. */
export function share(units: number, part: number, whole: number): number {
  const product = units * part;
  if (product <= LARGEST) return Math.ceil(product / whole);
  let quotient = 0;
  let rest = 0;
  for (let place = DIGIT ** 7; place >= 1; place /= DIGIT) {
    rest = rest * DIGIT + (Math.floor(units / place) % DIGIT) * part;
    quotient = quotient * DIGIT + Math.floor(rest / whole);
    rest %= whole;
  }
  return rest > 0 ? quotient + 1 : quotient;
}

/** The same in Lua, which sets the variable `result`. */
export function shareTwin(result: string, units: string, part: string, whole: string): string {
  return /* lua */ `
    local product = ${units} * ${part}
    if product <= LARGEST then
      ${result} = ceil(product / ${whole})
    else
      local quotient, rest, place = 0, 0, 128 ^ 7
      while place >= 1 do
        rest = rest * 128 + (floor(${units} / place) % 128) * ${part}
        quotient = quotient * 128 + floor(rest / ${whole})
        rest = rest % ${whole}
        place = place / 128
      end
      ${result} = rest > 0 and quotient + 1 or quotient
    end`;
}
