import type { Twin } from './algorithm.ts';
import { type Duration, parseDuration } from './duration.ts';
import { show, TollgateConfigError } from './errors.ts';

/** When a limit bans a key: after so many refusals, for a while, longer each time. */
export interface BanOptions {
  /** Refusals that ban a key: a whole number of 1 or more. Those while it is banned do not count. */
  readonly after: number;
  /** The time in which they have to fall. */
  readonly within: Duration;
  /** How long the first ban lasts. */
  readonly for: Duration;
  /** By how much each further ban is longer: a number of 1 or more, default 2. */
  readonly growth?: number;
  /** The longest ban; default `"1d"`, or `for` where that is longer. */
  readonly max?: Duration;
}

/**
 * What is remembered of a key's bans.
 * - until: when the last ban ends, in µs
 * - strikes and since: refusals counted, and since when, in µs
 * - level: how many bans the next one is grown by, without what was forgotten since `until`
 * - length: of the last ban, in µs; each time as long without another one forgets a level
 */
export type BanState = [
  until: number,
  strikes: number,
  since: number,
  level: number,
  length: number,
];

/** A ban made ready: pure steps of whole microseconds, as a rule's are. */
export class BanRule {
  readonly after: number;
  readonly within: number;
  readonly first: number;
  readonly growth: number;
  readonly max: number;
  /** The integers, and the one fraction, that the Lua twin works with. */
  readonly numbers: readonly number[];

  /** @throws TollgateConfigError with the path of the option at fault and the mend. */
  constructor(options: BanOptions, path: string) {
    if (typeof options !== 'object' || options === null) {
      throw new TollgateConfigError(path, `expected { after, within, for }, got ${show(options)}`);
    }
    const { after, within, for: first, growth = 2, max, ...rest } = options;
    for (const option of Object.keys(rest)) {
      throw new TollgateConfigError(
        `${path}.${option}`,
        'there is no such option; there are after, within, for, growth and max',
      );
    }
    if (!Number.isSafeInteger(after) || after < 1) {
      throw new TollgateConfigError(
        `${path}.after`,
        `expected a whole number of 1 or more, got ${show(after)}`,
      );
    }
    if (typeof growth !== 'number' || !(growth >= 1 && growth <= 1_000)) {
      throw new TollgateConfigError(
        `${path}.growth`,
        `expected a number from 1 to 1000, got ${show(growth)}`,
      );
    }
    this.after = after;
    this.within = microseconds(within, `${path}.within`);
    this.first = microseconds(first, `${path}.for`);
    this.growth = growth;
    this.max = max === undefined ? Math.max(this.first, DAY_US) : microseconds(max, `${path}.max`);
    if (this.max < this.first) {
      throw new TollgateConfigError(`${path}.max`, `expected no less than for, got ${show(max)}`);
    }
    this.numbers = [this.after, this.within, this.first, this.growth, this.max];
  }

  /** Counts a refusal at `now` of a key that is not banned; bans it when there were enough. */
  strike(state: BanState, now: number): void {
    if (state[1] === 0 || now >= state[2] + this.within) {
      state[1] = 0;
      state[2] = now;
    }
    state[1]++;
    if (state[1] < this.after) return;
    impose(state, now, this.lengthAt(levelAt(state, now)));
    state[3]++;
  }

  private lengthAt(level: number): number {
    let length = this.first;
    for (let grown = 0; grown < level && length < this.max; grown++) {
      length = Math.min(this.max, Math.ceil(length * this.growth));
    }
    return length;
  }
}

const DAY_US = 86_400_000_000;

function microseconds(duration: Duration, path: string): number {
  return Math.round(parseDuration(duration, path) * 1_000);
}

/**
 * Brings a state to `now`: after a clock stepped back nobody is banned for longer than the ban was to last. Returns
 * whether that was so, which a store keeps.
 */
export function rollBan(state: BanState, now: number): boolean {
  const healed = state[0] > now + state[4] || state[2] > now;
  if (state[0] > now + state[4]) state[0] = now + state[4];
  if (state[2] > now) state[2] = now;
  return healed;
}

/** How many bans the next one is grown by: one less for each time as long as the last that it has been over. */
function levelAt(state: Readonly<BanState>, now: number): number {
  const forgotten = state[4] === 0 ? 0 : Math.max(0, Math.floor((now - state[0]) / state[4]));
  return Math.max(0, state[3] - forgotten);
}

/** Bans a key for `length` µs from `now` on, whatever was before. */
export function impose(state: BanState, now: number, length: number): void {
  state[3] = levelAt(state, now);
  state[0] = now + length;
  state[1] = 0;
  state[4] = length;
}

/** How long a key is still banned, in µs; 0 when it is not. */
export function banned(state: Readonly<BanState>, now: number): number {
  return Math.max(0, state[0] - now);
}

/**
 * How long until nothing of a key's bans is remembered. The state does not say within which time refusals have to
 * fall, so `rule` does; without one there are none.
 */
export function banForgottenAfter(
  state: Readonly<BanState>,
  now: number,
  rule: BanRule | undefined,
): number {
  const levels = state[0] + state[3] * state[4] - now;
  const strikes = state[1] === 0 || rule === undefined ? 0 : state[2] + rule.within - now;
  return Math.max(0, levels, strikes);
}

/** The same in Lua, where lists count from 1; `ban` holds the numbers of a BanRule by name. */
export const banTwin: Pick<Twin, 'numbers'> & { readonly layout: string; readonly lua: string } = {
  layout: '<i7i7i7i7i7',
  numbers: ['after', 'within', 'first', 'growth', 'max'],
  lua: /* lua */ `
    local function levelAt(state, now)
      local forgotten = state[5] == 0 and 0 or max(0, floor((now - state[1]) / state[5]))
      return max(0, state[4] - forgotten)
    end

    local function impose(state, now, length)
      state[4] = levelAt(state, now)
      state[1] = now + length
      state[2] = 0
      state[5] = length
    end

    local function lengthAt(ban, level)
      local length, grown = ban.first, 0
      while grown < level and length < ban.max do
        length = min(ban.max, ceil(length * ban.growth))
        grown = grown + 1
      end
      return length
    end

    local function strike(ban, state, now)
      if state[2] == 0 or now >= state[3] + ban.within then
        state[2] = 0
        state[3] = now
      end
      state[2] = state[2] + 1
      if state[2] < ban.after then return end
      impose(state, now, lengthAt(ban, levelAt(state, now)))
      state[4] = state[4] + 1
    end

    local function rollBan(state, now)
      local healed = state[1] > now + state[5] or state[3] > now
      if state[1] > now + state[5] then state[1] = now + state[5] end
      if state[3] > now then state[3] = now end
      return healed
    end

    local function banForgottenAfter(state, now, ban)
      local levels = state[1] + state[4] * state[5] - now
      local strikes = (state[2] == 0 or not ban) and 0 or state[3] + ban.within - now
      return max(0, levels, strikes)
    end
  `,
};
