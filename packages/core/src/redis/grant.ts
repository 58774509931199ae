import type { State } from '../algorithm.ts';
import { run } from './engine-twins.ts';
import { OPS } from './ops.ts';

/** Costs that wait to be granted, in order, each so many times. */
export type Costs = readonly (readonly [times: number, cost: number])[];

/** What is asked of a key in the store. */
export interface Asked {
  readonly costs: Costs;
  /** Units beyond those costs, to be spent later. */
  readonly extra: number;
}

/** What the store says of a key after a grant. */
export interface Told {
  /** Units that it charged: those of the costs that fitted, and what it granted beyond. */
  readonly units: number;
  /** Units that were free before. */
  readonly free: number;
  /** For how long the key is banned, in µs. */
  readonly banned: number;
  /** The store's time, in µs. */
  readonly at: number;
  /** The key's state at that time, with the units charged. */
  readonly state: State;
}

/** How often each cost fits into what is free, one after the other as decisions would be made. */
export function fitting(free: number, costs: Costs): number[] {
  let left = free;
  return costs.map(([times, cost]) => {
    const fits = Math.min(times, Math.floor(left / cost));
    left -= fits * cost;
    return fits;
  });
}

/**
 * How many units are granted. Beyond the costs that wait it is a part of what is left, the smaller the more processes
 * hold leases of the key and the less is left, and nothing where a cost did not fit.
 */
export function grantOf(free: number, { costs, extra }: Asked, holders: () => number): number {
  let left = free;
  let all = true;
  for (const [times, cost] of costs) {
    const fits = Math.min(times, Math.floor(left / cost));
    all &&= fits === times;
    left -= fits * cost;
  }
  if (all && extra > 0) left -= Math.min(extra, Math.floor(left / (2 * holders())));
  return free - left;
}

/**
 * The same in Lua, as a part of `change`. Told after the charge: the place of the key's holders (0 where it is not known),
 * this holder, for how long holders are remembered in µs, the number of costs, per cost how often and how much, and the
 * units beyond. Replies the fields of `Told` but the time.
 */
export const GRANT: string = /* lua */ `
    local function holdersOf(key, holder, time)
      if not key then return 1 end
      redis.call('ZADD', key, format('%d', now), format('%d', holder))
      redis.call('ZREMRANGEBYSCORE', key, '-inf', format('%d', now - time))
      redis.call('PEXPIRE', key, format('%d', ceil(time / 1000) + grace))
      return redis.call('ZCARD', key)
    end

    local banned, remaining = ban and ban.of(args[at + 2], 0, ${OPS.attempt}) or 0, 0
    ${run('remaining', 'in string')}
    local free = banned > 0 and 0 or remaining
    local left, all, cursor = free, true, at + 12
    for _ = 1, args[cursor] do
      local times, cost = args[cursor + 1], args[cursor + 2]
      cursor = cursor + 2
      local fits = min(times, floor(left / cost))
      all = all and fits == times
      left = left - fits * cost
    end
    local extra = args[cursor + 1]
    if all and extra > 0 then
      local holders = holdersOf(KEYS[args[at + 9]], args[at + 10], args[at + 11])
      left = left - min(extra, floor(left / (2 * holders)))
    end
    if free > left then
      add(free - left)
    elseif healed and healed[place] then
      keep()
    end
    reply[said + 1], reply[said + 2], reply[said + 3] = free - left, free, banned
    said = said + 3
    for n = 1, #state - 1 do reply[said + n] = state[n] end
    said = said + #state - 1
    return cursor + 1`;
