import type { State } from '../algorithm.ts';

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
 * The same in Lua, where the engine's functions are at hand. Told after the charge: the place of the key's holders (0
 * where it is not known), this holder, for how long holders are remembered in µs, the number of costs, per cost how
 * often and how much, and the units beyond. Replies the fields of `Told` but the time.
 */
export function grantTwin(attempt: number): string {
  return /* lua */ `
    local function holdersOf(place, holder, time)
      if place == 0 then return 1 end
      local key = KEYS[place]
      redis.call('ZADD', key, format('%d', now), format('%d', holder))
      redis.call('ZREMRANGEBYSCORE', key, '-inf', format('%d', now - time))
      redis.call('PEXPIRE', key, format('%d', ceil(time / 1000) + grace))
      return redis.call('ZCARD', key)
    end

    function grant()
      local at = cursor
      local place, bans, rule, offset = args[at + 1], args[at + 2], rules[args[at + 3]], args[at + 5]
      local state = view(place, rule, offset)
      local banned = ban and ban.of(bans, 0, ${attempt}) or 0
      local holders, holder, time, costs = args[at + 9], args[at + 10], args[at + 11], args[at + 12]
      local free = banned > 0 and 0 or rule:remaining(state, now)
      local left, all = free, true
      cursor = at + 12
      for _ = 1, costs do
        local times, cost = args[cursor + 1], args[cursor + 2]
        cursor = cursor + 2
        local fits = min(times, floor(left / cost))
        all = all and fits == times
        left = left - fits * cost
      end
      cursor = cursor + 1
      local extra = args[cursor]
      if all and extra > 0 then
        left = left - min(extra, floor(left / (2 * holdersOf(holders, holder, time))))
      end
      local units = free - left
      if units > 0 then rule:add(state, units, now, args[at + 8], offset) end
      if units > 0 or (healed and healed[place]) then keep(place, rule, state) end
      reply[said + 1], reply[said + 2], reply[said + 3] = units, free, banned
      said = said + 3
      for n = 1, rule.size do reply[said + n] = state[n] end
      said = said + rule.size
    end`;
}
