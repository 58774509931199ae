import { createHash } from 'node:crypto';
import { MOST_UNITS, type Twin } from '../algorithm.ts';
import { banTwin } from '../ban.ts';
import { TWINS } from '../algorithms/index.ts';
import { LARGEST } from '../tick.ts';

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
} as const;

/** Stands for Infinity in replies, which are integers. */
export const NEVER = -1;

function assemble([tag, twin]: readonly [string, Twin], place: number): string {
  const parent =
    twin.extends === undefined ? -1 : TWINS.findIndex(([other]) => other === twin.extends);
  return `
-- ${tag}
MAKERS[${place + 1}] = function()
  local rule = {}
  rule.__index = rule
  ${parent === -1 ? '' : `setmetatable(rule, twin(${parent + 1}))`}
  ${twin.lua}
  rule.names = { ${twin.numbers.map((name) => `'${name}'`).join(', ')} }
  rule.keeps = '${twin.keeps}'
  return rule
end`;
}

/**
 * The one script that touches Redis. It takes a batch of items, each of N charges, and runs them in order at one
 * instant: the result is that of running them back to back. Per decision it checks all charges, then commits all or
 * none. Every key that it writes gets its time to live in the same call.
 *
 * KEYS: the keys of all charges, each once.
 * ARGV: one JSON array: an instant in µs, or '' for Redis' own clock; then per item an op of `OPS`, the number of its charges, and per
 * charge: its place in KEYS and that of its bans (0 where none is asked for), the algorithm, the key's clock offset, the cost (or the units of a correction), 1 for
 * shadow, what names the charge or its slot, the number of a receipt's numbers and those, and the rule's numbers.
 *
 * and 1 and the ban's numbers or 0. For a ban: the place of the key's bans and the length.
 *
 * Reply: the instant, then per decision: 1 for admitted, the delay, and per charge the wait, remaining, wait for one
 * more unit, reset, for how long it is banned, and the number of the receipt's numbers and those; per renewal 1 or 0.
 */
export const SCRIPT: string = `
local ARGV = cjson.decode(ARGV[1])
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local INFINITY, LARGEST, MOST_UNITS = math.huge, ${LARGEST}, ${MOST_UNITS}
local TICKS = { 1, 1000, 1000000 }
local BAN = { ${banTwin.numbers.map((name) => `'${name}'`).join(', ')} }
local unpack = unpack or table.unpack

-- The share of \`units\` that a part of a whole has, rounded up; see share() in tick.ts.
local function share(units, part, whole)
  local product = units * part
  if product <= LARGEST then return ceil(product / whole) end
  local quotient, rest, place = 0, 0, 128 ^ 7
  while place >= 1 do
    rest = rest * 128 + (floor(units / place) % 128) * part
    quotient = quotient * 128 + floor(rest / whole)
    rest = rest % whole
    place = place / 128
  end
  return rest > 0 and quotient + 1 or quotient
end

local function integer(number)
  return string.format('%.0f', number)
end

local MAKERS, made = {}, {}
local function twin(place)
  if not made[place] then made[place] = MAKERS[place]() end
  return made[place]
end
${TWINS.map(assemble).join('\n')}
${banTwin.lua}

local now = tonumber(ARGV[1])
-- Keys outlive what they say by a moment, and by an hour under a test's clock, which Redis' expiry does not go by.
local grace = now and 3600000 or 1
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local cursor = 1
local function take()
  cursor = cursor + 1
  return tonumber(ARGV[cursor])
end

-- What strings hold, by place in KEYS: read once, written once at the end.
local held, dirty, struck = {}, {}, {}

local function parse(place, text)
  local state = { 0, 0, 0, 0, 0, 0, new = not text }
  if text then
    local at = 0
    for number in string.gmatch(text, '%-?%d+') do
      at = at + 1
      state[at] = tonumber(number)
    end
  end
  held[place] = state
  return state
end

-- The state of a place, and on the way that of the bans in another, which is asked for next.
local function read(place, bans)
  local state = held[place]
  if not state and bans > 0 and not held[bans] then
    local texts = redis.call('MGET', KEYS[place], KEYS[bans])
    state = parse(place, texts[1])
    parse(bans, texts[2])
  elseif not state then
    state = parse(place, redis.call('GET', KEYS[place]))
  end
  local copy = { state[1], state[2], state[3], state[4], state[5], state[6] }
  copy.new = state.new
  return copy
end

-- How long a charge's key is still banned.
local function bannedFor(charge, op)
  local state = held[charge.bans] or parse(charge.bans, redis.call('GET', KEYS[charge.bans]))
  if state.new then return 0 end
  local view = op == ${OPS.peek} and { unpack(state) } or state
  if rollBan(view, charge.now) and view == state then struck[charge.bans] = charge.ban or true end
  return max(0, view[1] - charge.now)
end

-- Counts a refusal, and returns for how long the key is banned then.
local function countRefusal(charge)
  local state = held[charge.bans]
  strike(charge.ban, state, charge.now)
  state.new = nil
  struck[charge.bans] = charge.ban
  return max(0, state[1] - charge.now)
end

-- A charge: its rule with the rule's numbers, and the state rolled to now.
local function open()
  local charge = { place = take(), bans = take(), banned = 0 }
  local rule = twin(take())
  local self = setmetatable({}, rule)
  charge.rule = self
  charge.now = now
  charge.offset = take()
  charge.cost = take()
  charge.shadow = take() == 1
  cursor = cursor + 1
  charge.slot = rule.keeps == 'sorted-set' and ARGV[cursor] or tonumber(ARGV[cursor])
  local numbers = take()
  if numbers > 0 then
    charge.receipt = {}
    for i = 1, numbers do charge.receipt[i] = take() end
  end
  for i = 1, #rule.names do self[rule.names[i]] = take() end
  if take() == 1 then
    charge.ban = {}
    for _, name in ipairs(BAN) do charge.ban[name] = take() end
  end
  if rule.keeps == 'string' then
    charge.state = read(charge.place, charge.bans)
    charge.known = not charge.state.new
  else
    charge.state = { key = KEYS[charge.place] }
  end
  charge.healed = self:roll(charge.state, charge.now, charge.offset)
  if rule.keeps ~= 'string' then charge.known = charge.state.known end
  return charge
end

local function keep(charge)
  local rule, state = charge.rule, charge.state
  if rule.keeps == 'string' then
    state.new = nil
    held[charge.place] = state
    dirty[charge.place] = charge
    -- Further items of the batch start from this state, and change copies of it.
    charge.state = { state[1], state[2], state[3], state[4], state[5], state[6] }
    return
  end
  rule:keep(state)
  if state.count > 0 then
    local ms = ceil(rule:resetAfter(state, charge.now) / 1000) + grace
    redis.call('PEXPIRE', state.key, integer(ms))
  end
end

local reply = { now }
local function say(number)
  if number == INFINITY then number = ${NEVER} end
  -- Some clients misread an integer close to 2^53 by its last digit.
  reply[#reply + 1] = number > 2 ^ 52 and integer(number) or number
end

local function decide(op, count)
  local charges, admitted = {}, true
  for i = 1, count do
    local charge = open()
    charges[i] = charge
    charge.wait = 0
    if op ~= ${OPS.charge} or charge.rule.keeps ~= 'string' then
      charge.wait = charge.rule:wait(charge.state, charge.cost, charge.now)
    end
    if op ~= ${OPS.charge} and charge.bans > 0 then charge.banned = bannedFor(charge, op) end
    if (charge.wait > 0 or charge.banned > 0) and not charge.shadow then admitted = false end
  end
  local delay = 0
  for i = 1, count do
    local charge = charges[i]
    local rule, state = charge.rule, charge.state
    local charged = false
    if admitted and charge.wait == 0 and charge.banned == 0 then
      if not charge.shadow then delay = max(delay, rule:delay(state, charge.now)) end
      if op ~= ${OPS.peek} and charge.cost > 0 then
        charge.receipt = rule:add(state, charge.cost, charge.now, charge.slot, charge.offset)
        charged = true
      end
    end
    if charged or (charge.healed and op ~= ${OPS.peek}) then keep(charge) end
    if charge.ban and charge.bans > 0 and charge.wait > 0 and charge.banned == 0 and not charge.shadow then
      charge.banned = countRefusal(charge)
    end
    charge.charged = charged
  end
  say(admitted and 1 or 0)
  say(delay)
  for i = 1, count do
    local charge = charges[i]
    local rule, state = charge.rule, charge.state
    local remaining = rule:remaining(state, charge.now)
    local resetAfter = rule:resetAfter(state, charge.now)
    say(charge.wait)
    say(remaining)
    say(resetAfter == 0 and 0 or rule:wait(state, remaining + 1, charge.now))
    say(resetAfter)
    say(charge.banned)
    local receipt = charge.charged and charge.receipt or {}
    say(#receipt)
    for n = 1, #receipt do say(receipt[n]) end
  end
end

local function correct()
  local charge = open()
  local rule, state, units = charge.rule, charge.state, charge.cost
  if units < 0 then
    if not charge.known or not charge.receipt then return end
    local given = rule:giveBack(state, -units, charge.now, charge.receipt, charge.slot)
    if not given and not charge.healed then return end
  else
    if rule.keeps ~= 'string' then units = min(units, rule:remaining(state, charge.now)) end
    if units == 0 then return end
    rule:add(state, units, charge.now, charge.slot, charge.offset)
  end
  keep(charge)
end

local function refund()
  local charge = open()
  if not charge.known then return end
  charge.rule:refund(charge.state, charge.cost, charge.now)
  keep(charge)
end

local function renew()
  local charge = open()
  local holds = charge.rule.holds and charge.rule:holds(charge.state, charge.slot)
  if holds then
    charge.rule:add(charge.state, 1, charge.now, charge.slot)
    keep(charge)
  end
  say(holds and 1 or 0)
end

local function ban()
  local place, length = take(), take()
  local state = held[place] or parse(place, redis.call('GET', KEYS[place]))
  impose(state, now, length)
  state.new = nil
  struck[place] = struck[place] or true
end

local run = { [${OPS.correct}] = correct, [${OPS.refund}] = refund, [${OPS.renew}] = renew, [${OPS.ban}] = ban }
while cursor < #ARGV do
  local op, count = take(), take()
  if op <= ${OPS.charge} then
    decide(op, count)
  else
    for _ = 1, count do run[op]() end
  end
end

for place, charge in pairs(dirty) do
  local state = held[place]
  local last = 6
  while last > 1 and state[last] == 0 do last = last - 1 end
  for i = 1, last do state[i] = integer(state[i]) end
  -- A key that is whole goes; what held nothing back cannot be owed.
  local ms = ceil(max(0, charge.rule:resetAfter(charge.state, charge.now)) / 1000) + grace
  redis.call('SET', KEYS[place], table.concat(state, ':', 1, last), 'PX', integer(ms))
end
for place, ban in pairs(struck) do
  local state = held[place]
  local ms = ceil(banForgottenAfter(state, now, ban ~= true and ban) / 1000) + grace
  for i = 1, 5 do state[i] = integer(state[i]) end
  redis.call('SET', KEYS[place], table.concat(state, ':', 1, 5), 'PX', integer(ms))
end
return reply
`;

export const SHA: string = createHash('sha1').update(SCRIPT).digest('hex');
