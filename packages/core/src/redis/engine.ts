import { createHash } from 'node:crypto';
import { MOST_UNITS, type Twin } from '../algorithm.ts';
import { banTwin } from '../ban.ts';
import { TWINS } from '../algorithms/index.ts';
import { LARGEST } from '../tick.ts';
import { grantTwin } from './grant.ts';

/** What a call of the engine asks for; a batch may hold any of them. */
export const OPS = {
  consume: 1,
  attempt: 2,
  peek: 3,
  charge: 4,
  correct: 5,
  refund: 6,
  renew: 7,
  ban: 8,
  fold: 9,
  grant: 10,
} as const;

/** Stands for Infinity in replies, which are integers. */
export const NEVER = -1;

/** What makes a rule of an algorithm from the numbers that follow the cursor. */
function assemble([tag, twin]: readonly [string, Twin], index: number): string {
  const place = index + 1;
  const parent = TWINS.findIndex(([other]) => other === twin.extends) + 1;
  const { numbers, layout } = twin;
  return `
    -- ${tag}
    if place == ${place} then
      if not made[${place}] then
        ${parent === 0 ? 'local rule = { __index = 0, roll = 0, wait = 0, delay = 0, remaining = 0, resetAfter = 0, add = 0, refund = 0, giveBack = 0, layout = 0, size = 0 }' : `local rule = setmetatable({}, twin(${parent}))`}
        rule.__index = rule
        rule.layout = ${layout === undefined ? 'false' : `'${layout}'`}
        rule.size = ${sizeOf(layout)}
        ${twin.lua}
        made[${place}] = rule
      end
      return made[${place}], { ${numbers.map((name, n) => `${name} = args[cursor + ${n + 1}]`).join(', ')} }, ${numbers.length}
    end`;
}

/** How many numbers a layout holds. */
function sizeOf(layout = ''): number {
  return layout.split(/[a-zA-Z]/).length - 1;
}

/**
 * The one script that touches Redis. It takes a batch of items, each of N charges, and runs them in order at one
 * instant: the result is that of running them back to back. Per decision it checks all charges, then commits all or
 * none. Every key that it writes gets its time to live in the same call.
 *
 * KEYS: the keys of all charges and of their bans, each once.
 * ARGV: one JSON array:
 * - an instant in µs, or '' for Redis' own clock
 * - the number of rules, and per rule its algorithm and its numbers
 * - the number of rules of bans, and the numbers of each
 * - per item an op of `OPS`, a count, and the item's charges, of which there are so many. A fold has one charge, which
 *   is made so many times.
 *
 * A charge: its place in KEYS, that of its bans (0 where none is asked for), its rule, the rule of its bans (0 where
 * none is counted), the key's clock offset, the cost (or the units of a correction), 1 for shadow, and what names the
 * charge or its slot. In a correction the number of its receipt's numbers, and those, follow. For a ban: the place of
 * the key's bans, and the length.
 *
 * Reply: the instant, then per decision 1 for admitted and the delay, and per charge for how long its key is banned,
 * 1 if it was charged, and its state by then: all numbers of it where it is kept in a string, else the wait, the
 * remaining, the wait for one more unit, the reset, and the number of its receipt's numbers and those. Per fold how
 * long its key is banned, how many were admitted, and the state before. Per renewal 1 or 0.
 */
export const SCRIPT: string = `
local args = cjson.decode(ARGV[1])
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local INFINITY, LARGEST, MOST_UNITS = math.huge, ${LARGEST}, ${MOST_UNITS}
local unpack = unpack or table.unpack
local pack, unpacked, format = struct.pack, struct.unpack, string.format

local now = tonumber(args[1])
-- Keys outlive what they say by a moment, and by an hour under a test's clock, which Redis' expiry does not go by.
local grace = now and 3600000 or 1
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- All that follows is a function of its own: what is above costs less to reach in the functions that it makes.
local function run()

local function integer(number)
  return format('%d', number)
end

local cursor, made = 1, {}

-- An algorithm's methods, and the numbers after the cursor by its names for them, and how many they are.
local function twin(place)
  ${TWINS.map(assemble).join('\n')}
end

local function take()
  cursor = cursor + 1
  return args[cursor]
end

local rules = {}
for i = 1, take() do
  local rule, self, numbers = twin(take())
  rules[i] = setmetatable(self, rule)
  cursor = cursor + numbers
end

-- By place in KEYS. What strings hold is read once, and written once at the end: \`kept\` is what is to be written, and
-- \`views\` is what a rule made of it at this instant.
local texts = #KEYS > 0 and redis.call('MGET', unpack(KEYS)) or {}
local kept, views = {}, {}

-- Closures are made only when they are called for: each costs a call some time.
local banRules, bans, struck, ban = {}, {}, false, false
for i = 1, take() do
  banRules[i] = { ${banTwin.numbers.map((name, n) => `${name} = args[cursor + ${n + 1}]`).join(', ')} }
  cursor = cursor + ${banTwin.numbers.length}
end
local function loadBans()
  ${banTwin.lua}
  struck = {}
  ban = { strike = strike, roll = rollBan, impose = impose, forgottenAfter = banForgottenAfter }
end

local function bansOf(place)
  if not ban then loadBans() end
  local state = bans[place]
  if not state then
    state = texts[place] and { unpacked('${banTwin.layout}', texts[place]) } or { 0, 0, 0, 0, 0 }
    bans[place] = state
  end
  return state
end

-- How long a key is still banned, by the place of its bans.
local function bannedFor(place, banRule, op)
  if not texts[place] and not bans[place] then return 0 end
  local state = bansOf(place)
  local seen = op == ${OPS.peek} and { unpack(state, 1, 5) } or state
  if ban.roll(seen, now) and seen == state then struck[place] = banRule or true end
  return max(0, seen[1] - now)
end

-- Counts a refusal, and returns for how long the key is banned then.
local function countRefusal(place, banRule)
  local state = bansOf(place)
  ban.strike(banRule, state, now)
  struck[place] = banRule
  return max(0, state[1] - now)
end

-- What is kept or stored of a key, as a rule sees it now. Rolling is done once: it changes nothing a second time.
local function view(place, rule, offset)
  local state = views[place]
  if not rule.layout then
    state = { key = KEYS[place] }
    state.healed = rule:roll(state, now)
    state.new = not state.known
    return state
  end
  if state and state.rule == rule then return state end
  if kept[place] then
    state = { unpack(kept[place], 1, 6) }
  elseif texts[place] then
    state = { unpacked(rule.layout, texts[place]) }
  else
    state = { 0, 0, 0, 0, 0, 0, new = true }
  end
  state.rule = rule
  state.healed = rule:roll(state, now, offset)
  views[place] = state
  return state
end

local function keep(place, rule, state)
  if rule.layout then
    if state.new then state.new = false end
    if state.healed then state.healed = false end
    kept[place] = state
    return
  end
  rule:keep(state)
  if state.count > 0 then
    local ms = ceil(rule:resetAfter(state, now) / 1000) + grace
    redis.call('PEXPIRE', state.key, integer(ms))
  end
end

local reply, said = { now }, 1
local function say(number)
  said = said + 1
  -- Some clients misread an integer close to 2^53 by its last digit.
  if number > 4503599627370496 then number = number == INFINITY and ${NEVER} or integer(number) end
  reply[said] = number
end

-- Tells how a key stands, and what a charge left, if it was made.
local function sayStanding(rule, state, wait, banned, receipt)
  say(banned)
  say(receipt and 1 or 0)
  if rule.layout then
    local numbers = receipt or state
    for n = 1, rule.size do say(numbers[n]) end
    return
  end
  local remaining, resetAfter = rule:remaining(state, now), rule:resetAfter(state, now)
  say(wait)
  say(remaining)
  say(resetAfter == 0 and 0 or rule:wait(state, remaining + 1, now))
  say(resetAfter)
  say(receipt and #receipt or 0)
  for n = 1, receipt and #receipt or 0 do say(receipt[n]) end
end

-- A decision of several charges: all or none.
local function decideAll(op, count)
  local charges, admitted, delay = {}, true, 0
  for i = 1, count do
    local at = cursor
    cursor = at + 8
    local place, bans, rule, offset = args[at + 1], args[at + 2], rules[args[at + 3]], args[at + 5]
    local charge = {
      place = place, bans = bans, rule = rule, ban = banRules[args[at + 4]], offset = offset,
      cost = args[at + 6], shadow = args[at + 7] == 1, slot = args[at + 8],
      state = view(place, rule, offset), receipt = false, wait = 0, banned = 0,
    }
    charges[i] = charge
    if op ~= ${OPS.charge} then
      charge.wait = rule:wait(charge.state, charge.cost, now)
      if bans > 0 then charge.banned = bannedFor(bans, charge.ban, op) end
    elseif not rule.layout then
      charge.wait = rule:wait(charge.state, charge.cost, now)
    end
    if (charge.wait > 0 or charge.banned > 0) and not charge.shadow then admitted = false end
  end
  for i = 1, count do
    local charge = charges[i]
    local rule, state = charge.rule, charge.state
    if admitted and charge.wait == 0 and charge.banned == 0 then
      if not charge.shadow then delay = max(delay, rule:delay(state, now)) end
      if op ~= ${OPS.peek} and charge.cost > 0 then
        charge.receipt = rule:add(state, charge.cost, now, charge.slot, charge.offset)
      end
    end
    if charge.receipt or (state.healed and op ~= ${OPS.peek}) then keep(charge.place, rule, state) end
    if charge.ban and charge.wait > 0 and charge.banned == 0 and not charge.shadow then
      charge.banned = countRefusal(charge.bans, charge.ban)
    end
  end
  say(admitted and 1 or 0)
  say(delay)
  for i = 1, count do
    local charge = charges[i]
    sayStanding(charge.rule, charge.state, charge.wait, charge.banned, charge.receipt)
  end
end

-- What decideAll does, for the commonest decision: one charge, without a table for it.
local function decideOne(op)
  local at = cursor
  cursor = at + 8
  local place, bans, rule, offset = args[at + 1], args[at + 2], rules[args[at + 3]], args[at + 5]
  local cost, shadow = args[at + 6], args[at + 7] == 1
  local state = view(place, rule, offset)
  local wait, banned, delay, receipt = 0, 0, 0, false
  if op ~= ${OPS.charge} then
    wait = rule:wait(state, cost, now)
    if bans > 0 then banned = bannedFor(bans, banRules[args[at + 4]], op) end
  elseif not rule.layout then
    wait = rule:wait(state, cost, now)
  end
  if wait == 0 and banned == 0 then
    if not shadow then delay = rule:delay(state, now) end
    if op ~= ${OPS.peek} and cost > 0 then receipt = rule:add(state, cost, now, args[at + 8], offset) end
  end
  if receipt or (state.healed and op ~= ${OPS.peek}) then keep(place, rule, state) end
  say((shadow or (wait == 0 and banned == 0)) and 1 or 0)
  say(delay)
  if wait > 0 and banned == 0 and not shadow and args[at + 4] > 0 then
    banned = countRefusal(bans, banRules[args[at + 4]])
  end
  sayStanding(rule, state, wait, banned, receipt)
end

-- Equal charges, each a decision of its own, of which none counts refusals: from the first that is refused on all are.
local function fold(times)
  local at = cursor
  cursor = at + 8
  local place, bans, rule, offset = args[at + 1], args[at + 2], rules[args[at + 3]], args[at + 5]
  local cost, slot, state = args[at + 6], args[at + 8], view(place, rule, offset)
  local banned, admitted = bans > 0 and bannedFor(bans, nil, ${OPS.attempt}) or 0, 0
  say(banned)
  local result = said + 1
  say(0)
  for n = 1, rule.size do say(state[n]) end
  while banned == 0 and admitted < times and rule:wait(state, cost, now) == 0 do
    if cost > 0 then rule:add(state, cost, now, slot, offset) end
    admitted = admitted + 1
  end
  if state.healed or (admitted > 0 and cost > 0) then keep(place, rule, state) end
  reply[result] = admitted
end

-- A change to what was charged. A state that units were taken off may be whole, and then is rolled anew when next seen.
local function change(op)
  if op == ${OPS.ban} then
    local place, length = take(), take()
    local state = bansOf(place)
    ban.impose(state, now, length)
    struck[place] = struck[place] or true
    return
  end
  local at = cursor
  cursor = at + 8
  local place, rule, offset = args[at + 1], rules[args[at + 3]], args[at + 5]
  local units, slot, state = args[at + 6], args[at + 8], view(place, rule, offset)
  if op == ${OPS.renew} then
    local holds = rule.holds and rule:holds(state, slot)
    if holds then
      rule:add(state, 1, now, slot)
      keep(place, rule, state)
    end
    say(holds and 1 or 0)
    return
  end
  if op == ${OPS.refund} then
    if state.new then return end
    rule:refund(state, units, now)
    keep(place, rule, state)
    views[place] = nil
    return
  end
  local receipt = {}
  for i = 1, take() do receipt[i] = take() end
  if units >= 0 then
    if not rule.layout then units = min(units, rule:remaining(state, now)) end
    if units == 0 then return end
    rule:add(state, units, now, slot, offset)
    keep(place, rule, state)
  elseif not state.new and #receipt > 0 then
    local given = rule:giveBack(state, -units, now, receipt, slot)
    if given or state.healed then keep(place, rule, state) end
    views[place] = nil
  end
end

while cursor < #args do
  local op, count = take(), take()
  if op <= ${OPS.charge} and count == 1 then
    decideOne(op)
  elseif op <= ${OPS.charge} then
    decideAll(op, count)
  elseif op == ${OPS.fold} then
    fold(count)
  elseif op == ${OPS.grant} then
    ${grantTwin(OPS.attempt)}
    for _ = 1, count do grant() end
  else
    for _ = 1, count do change(op) end
  end
end

for place, state in pairs(kept) do
  local rule = state.rule
  -- A key that is whole goes; what held nothing back cannot be owed.
  local ms = ceil(max(0, rule:resetAfter(state, now)) / 1000) + grace
  redis.call('SET', KEYS[place], pack(rule.layout, unpack(state, 1, rule.size)), 'PX', integer(ms))
end
for place, rule in pairs(struck or {}) do
  local state = bans[place]
  local ms = ceil(ban.forgottenAfter(state, now, rule ~= true and rule) / 1000) + grace
  redis.call('SET', KEYS[place], pack('${banTwin.layout}', unpack(state, 1, 5)), 'PX', integer(ms))
end
return reply
end
return run()
`;

export const SHA: string = createHash('sha1').update(SCRIPT).digest('hex');
