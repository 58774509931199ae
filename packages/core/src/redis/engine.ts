import { createHash } from 'node:crypto';
import { MOST_UNITS } from '../algorithm.ts';
import { banTwin } from '../ban.ts';
import { LARGEST } from '../tick.ts';
import { BANS } from './engine-bans.ts';
import { CHANGES } from './engine-changes.ts';
import { CHANGING_METHODS, RULES } from './engine-rules.ts';
import { grantTwin } from './grant.ts';
import { OPS } from './ops.ts';

/**
 * The one script that touches Redis. It takes a batch of items, each of N charges, and runs them in order at one
 * instant: the result is that of running them back to back. Per decision it checks all charges, then commits all or
 * none. Every key that it writes gets its time to live in the same call.
 *
 * It is written for what Lua costs inside Redis: a function or a table that is made costs as much as ten others that
 * are called, and a number that is a text as much as twenty that are packed. So nothing is made before it is needed.
 *
 * KEYS: the keys of all charges, each once, and then those of their bans.
 * ARGV: the names of slots, after a string of packed doubles:
 * - an instant in µs, or -1 for Redis' own clock
 * - how many of the keys are not of bans, and 1 if the call imposes bans
 * - the number of rules, and per rule its algorithm and its numbers
 * - the number of rules of bans, and the numbers of each
 * - per item an op of `OPS`, a count, and the item's charges, of which there are so many. A fold has one charge, which
 *   is made so many times.
 *
 * A charge: its place among the keys, that of its bans among theirs (0 where none is asked for), its rule, the rule of
 * its bans (0 where none is counted), the key's clock offset, the cost (or the units of a correction), 1 for shadow,
 * and what names the charge: a number, or the place in ARGV of the name of its slot. In a correction the number of its
 * receipt's numbers, and those, follow. For a ban: the place of the key's bans, and the length.
 *
 * Reply: packed doubles too, in which Infinity stands for never. The instant, then per decision 1 for admitted and the
 * delay, and per charge for how long its key is banned, 1 if it was charged, and its state by then: all numbers of it
 * where it is kept in a string, else the wait, the remaining, the wait for one more unit, and the reset. Per fold how
 * long its key is banned, how many were admitted, and the state before. Per renewal 1 or 0.
 */
export const SCRIPT: string = `
local pack, unpacked, rep, format = struct.pack, struct.unpack, string.rep, string.format
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local INFINITY, LARGEST, MOST_UNITS = math.huge, ${LARGEST}, ${MOST_UNITS}

local told = #ARGV[1] / 8
local args = { unpacked(rep('<d', told), ARGV[1]) }

local now = args[1]
-- Keys outlive what they say by a moment, and by an hour under a test's clock, which Redis' expiry does not go by.
local grace = 3600000
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  grace = 1
end

local rules, made, cursor = {}, {}, 4
${RULES}

-- What strings hold is read once, and written once at the end: by place in KEYS, \`kept\` is what is to be written, and
-- \`views\` is what a rule made of it at this instant, with that rule behind it.
local texts = #KEYS > 0 and redis.call('MGET', unpack(KEYS)) or {}
local kept, views, healed = {}, {}, false

local firstBan, ban = args[2], false
${BANS}

-- What is kept or stored of a key, as a rule sees it now. Rolling is done once: it changes nothing a second time.
local function view(place, rule, offset)
  local size, state = rule.size, views[place]
  if not size then
    state = { key = KEYS[place] }
  elseif state and state[size + 1] == rule then
    return state
  elseif kept[place] then
    state = { unpack(kept[place], 1, size) }
  else
    -- A key never seen is all zeros.
    state = { unpacked(rule.layout, texts[place] or rep('\\0', 48)) }
  end
  if rule:roll(state, now, offset) then
    healed = healed or {}
    healed[place] = true
  end
  if size then
    state[size + 1] = rule
    views[place] = state
  end
  return state
end

local function keep(place, rule, state)
  if healed then healed[place] = nil end
  if rule.size then
    kept[place] = state
    return
  end
  rule:keep(state)
  if state.count > 0 then
    local ms = ceil(rule:resetAfter(state, now) / 1000) + grace
    redis.call('PEXPIRE', state.key, format('%d', ms))
  end
end

local reply, said = { now }, 1
-- Of the charges of the decision at hand.
local states, waits, bans = {}, {}, {}
local change, grant = false, false

while cursor < told do
  local op, count, at = args[cursor + 1], args[cursor + 2], cursor + 2
  cursor = at
  if op <= ${OPS.charge} then
    -- A decision: all its charges or none.
    local admitted, delay, answer = true, 0, said
    for i = 1, count do
      local place, rule, cost = args[at + 1], rules[args[at + 3]], args[at + 6]
      local state = view(place, rule, args[at + 5])
      local wait, banned = 0, 0
      if op ~= ${OPS.charge} then
        wait = rule:wait(state, cost, now)
        if ban then banned = ban.of(args[at + 2], args[at + 4], op) end
      elseif not rule.size then
        wait = rule:wait(state, cost, now)
      end
      if (wait > 0 or banned > 0) and args[at + 7] == 0 then admitted = false end
      states[i], waits[i], bans[i] = state, wait, banned
      at = at + 8
    end
    reply[said + 1], reply[said + 2] = 0, 0
    said = said + 2
    for i = 1, count do
      local place, rule, cost = args[cursor + 1], rules[args[cursor + 3]], args[cursor + 6]
      local isFirm, slot = args[cursor + 7] == 0, args[cursor + 8]
      local state, wait, banned, charged = states[i], waits[i], bans[i], 0
      if admitted and wait == 0 and banned == 0 then
        if isFirm and rule.delay then delay = max(delay, rule:delay(state, now)) end
        if op ~= ${OPS.peek} and cost > 0 then
          rule:add(state, cost, now, rule.size and slot or ARGV[slot], args[cursor + 5])
          charged = 1
        end
      end
      if charged == 1 or (healed and healed[place] and op ~= ${OPS.peek}) then keep(place, rule, state) end
      if wait > 0 and banned == 0 and isFirm and args[cursor + 4] > 0 then
        banned = ban.strike(args[cursor + 2], args[cursor + 4])
      end
      reply[said + 1], reply[said + 2] = banned, charged
      said = said + 2
      if rule.size then
        for n = 1, rule.size do reply[said + n] = state[n] end
        said = said + rule.size
      else
        local remaining, resetAfter = rule:remaining(state, now), rule:resetAfter(state, now)
        local nextAfter = resetAfter == 0 and 0 or rule:wait(state, remaining + 1, now)
        reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = wait, remaining, nextAfter, resetAfter
        said = said + 4
      end
      cursor = cursor + 8
    end
    reply[answer + 1], reply[answer + 2] = admitted and 1 or 0, delay
  elseif op == ${OPS.fold} then
    -- Equal charges, each a decision of its own, of which none counts refusals: from the first refused on all are.
    local place, rule, offset = args[at + 1], rules[args[at + 3]], args[at + 5]
    local cost, slot, state = args[at + 6], args[at + 8], view(place, rule, offset)
    local banned, admitted = ban and ban.of(args[at + 2], 0, ${OPS.attempt}) or 0, 0
    local answer = said
    reply[said + 1], reply[said + 2] = banned, 0
    said = said + 2
    for n = 1, rule.size do reply[said + n] = state[n] end
    said = said + rule.size
    while banned == 0 and admitted < count and rule:wait(state, cost, now) == 0 do
      if cost > 0 then rule:add(state, cost, now, slot, offset) end
      admitted = admitted + 1
    end
    if (healed and healed[place]) or (admitted > 0 and cost > 0) then keep(place, rule, state) end
    reply[answer + 2] = admitted
    cursor = at + 8
  else
    if not change then
      ${CHANGING_METHODS}
      ${CHANGES}
      ${grantTwin(OPS.attempt)}
    end
    for _ = 1, count do
      if op == ${OPS.grant} then grant() else change(op) end
    end
  end
end

for place, state in pairs(kept) do
  local rule = state[#state]
  -- A key that is whole goes; what held nothing back cannot be owed.
  local ms = ceil(max(0, rule:resetAfter(state, now)) / 1000) + grace
  redis.call('SET', KEYS[place], pack(rule.layout, unpack(state, 1, rule.size)), 'PX', format('%d', ms))
end
for place, rule in pairs(ban and ban.struck or {}) do
  local state = ban.states[place]
  local ms = ceil(ban.forgottenAfter(state, now, rule ~= true and rule) / 1000) + grace
  redis.call('SET', KEYS[place], pack('${banTwin.layout}', unpack(state, 1, 5)), 'PX', format('%d', ms))
end
return pack(rep('<d', said), unpack(reply, 1, said))
`;

export const SHA: string = createHash('sha1').update(SCRIPT).digest('hex');
