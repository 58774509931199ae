import { createHash } from 'node:crypto';
import { MOST_UNITS, type Twin } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';
import { LARGEST } from '../tick.ts';

/** What a call of the engine asks for; a batch may hold any of them. */
export const OPS = {
  consume: 1,
  attempt: 1,
  peek: 2,
  charge: 3,
  correct: 4,
  refund: 5,
  renew: 6,
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
 * ARGV: an instant in µs, or '' for Redis' own clock; then per item an op of `OPS`, the number of its charges, and per
 * charge: the place in KEYS, the algorithm, the key's clock offset, the cost (or the units of a correction), 1 for
 * shadow, what names the charge or its slot, the number of a receipt's numbers and those, and the rule's numbers.
 *
 * Reply: the instant, then per decision: 1 for admitted, the delay, and per charge the wait, remaining, wait for one
 * more unit, reset, and after a charge the number of the receipt's numbers and those; per renewal 1 or 0.
 */
export const SCRIPT: string = `
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local INFINITY, LARGEST, MOST_UNITS = math.huge, ${LARGEST}, ${MOST_UNITS}
local TICKS = { 1, 1000, 1000000 }
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
local held, dirty = {}, {}

local function read(place)
  local state = held[place]
  if not state then
    state = { 0, 0, 0, 0, 0, 0 }
    local text = redis.call('GET', KEYS[place])
    if text then
      local at = 0
      for number in string.gmatch(text, '%-?%d+') do
        at = at + 1
        state[at] = tonumber(number)
      end
    else
      state.new = true
    end
    held[place] = state
  end
  local copy = { state[1], state[2], state[3], state[4], state[5], state[6] }
  copy.new = state.new
  return copy
end

-- A charge: its rule with the rule's numbers, and the state rolled to now.
local function open()
  local charge = { place = take() }
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
  if rule.keeps == 'string' then
    charge.state = read(charge.place)
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
    if charge.wait > 0 and not charge.shadow then admitted = false end
  end
  local delay = 0
  for i = 1, count do
    local charge = charges[i]
    local rule, state = charge.rule, charge.state
    local charged = false
    if admitted and charge.wait == 0 then
      if not charge.shadow then delay = max(delay, rule:delay(state, charge.now)) end
      if op ~= ${OPS.peek} and charge.cost > 0 then
        charge.receipt = rule:add(state, charge.cost, charge.now, charge.slot, charge.offset)
        charged = true
      end
    end
    if charged or (charge.healed and op ~= ${OPS.peek}) then keep(charge) end
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

while cursor < #ARGV do
  local op, count = take(), take()
  if op <= ${OPS.charge} then
    decide(op, count)
  else
    local run = op == ${OPS.correct} and correct or op == ${OPS.refund} and refund or renew
    for _ = 1, count do run() end
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
return reply
`;

export const SHA: string = createHash('sha1').update(SCRIPT).digest('hex');
