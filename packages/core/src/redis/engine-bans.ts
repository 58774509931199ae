import { banTwin } from '../ban.ts';
import { OPS } from './ops.ts';

/** The Lua of bans, which the engine makes only where a key is banned, refusals are counted or bans are imposed. */
export const BANS: string = /* lua */ `
local mayBan = args[3] == 1
for place = firstBan + 1, #KEYS do mayBan = mayBan or texts[place] end
if mayBan then
  ${banTwin.lua}

  ban = { states = {}, struck = {}, forgottenAfter = banForgottenAfter }

  local function load(place)
    local state = ban.states[place]
    if not state then
      state = texts[place] and { unpacked('${banTwin.layout}', texts[place]) } or { 0, 0, 0, 0, 0 }
      ban.states[place] = state
    end
    return state
  end

  -- A rule is told as its place among the arguments.
  local function ruleAt(place)
    if place == 0 then return nil end
    return { ${banTwin.numbers.map((name, n) => `${name} = args[place + ${n}]`).join(', ')} }
  end

  -- How long a key is still banned, by the place of its bans.
  function ban.of(place, rule, op)
    if place == 0 then return 0 end
    place = firstBan + place
    if not texts[place] and not ban.states[place] then return 0 end
    local state = load(place)
    local seen = op == ${OPS.peek} and { unpack(state, 1, 5) } or state
    if rollBan(seen, now) and seen == state then ban.struck[place] = ruleAt(rule) or true end
    return max(0, seen[1] - now)
  end

  -- Counts a refusal, and returns for how long the key is banned then.
  function ban.strike(place, rule)
    place = firstBan + place
    local state = load(place)
    ban.struck[place] = ruleAt(rule)
    strike(ban.struck[place], state, now)
    return max(0, state[1] - now)
  end

  function ban.impose(place, length)
    place = firstBan + place
    impose(load(place), now, length)
    ban.struck[place] = ban.struck[place] or true
  end
end
`;
