import { createHash } from 'node:crypto';
import { MOST_UNITS } from '../algorithm.ts';
import { banTwin } from '../ban.ts';
import { LARGEST } from '../tick.ts';
import { BANS } from './engine-bans.ts';
import { CHANGES } from './engine-changes.ts';
import { FUNCTIONS, LAST_IN_STRING, LAYOUT, run } from './engine-twins.ts';
import { OPS } from './ops.ts';

/** Lua for how so many doubles are packed. The layout of a few is cut off one that is there. */
function layoutOfDoubles(count: string): string {
  return `${count} < 64 and ('<${'d'.repeat(64)}'):sub(1, ${count} + 1) or '<' .. ('d'):rep(${count})`;
}

/**
 * The one script that touches Redis. It takes a batch of items, each of N charges, and runs them in order at one
 * instant: the result is that of running them back to back. Per decision it checks all charges, then commits all or
 * none. Every key that it writes gets its time to live in the same call.
 *
 * It is written for what Lua costs inside Redis, where a function or a table that is made costs as much as ten steps,
 * and a number that is a text as much as twenty that are packed. So nothing is made before it is needed.
 *
 * KEYS: the keys of all charges, each once, and then those of their bans.
 * ARGV: a string of packed doubles, and the names of slots. The doubles:
 * - an instant in µs, or -1 for Redis' own clock
 * - how many of the keys are not of bans
 * - 1 if the call counts refusals or imposes bans
 * - after which place the items begin
 * - the rules, each its algorithm and its numbers, and the numbers of rules of bans
 * - per item an op of `OPS`, a count, and the item's charges, of which there are so many. A fold has one charge, which
 *   is made so many times.
 *
 * A charge: its place among the keys, that of its bans among theirs (0 where none is asked for), the places among the
 * doubles of its rule and of the rule of its bans (0 where none is counted), the key's clock offset, the cost (or the
 * units of a correction), 1 for shadow, and what names the charge: a number, or the place in ARGV of its slot's name. In
 * a correction the number of its receipt's numbers, and those, follow. For a ban: the place of the key's bans, and the
 * length.
 *
 * Reply: packed doubles too, in which Infinity stands for never. The instant, then per decision 1 for admitted and the
 * delay, and per charge for how long its key is banned, 1 if it was charged, and its state by then: all numbers of it
 * where it is kept in a string, else the wait, the remaining, the wait for one more unit, and the reset. Per fold how
 * long its key is banned, how many were admitted, and the state before. Per renewal 1 or 0.
 */
export const SCRIPT: string = `
local pack, unpacked, format = struct.pack, struct.unpack, string.format
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local INFINITY, LARGEST, MOST_UNITS = 1 / 0, ${LARGEST}, ${MOST_UNITS}

local told = #ARGV[1] / 8
local args = { unpacked(${layoutOfDoubles('told')}, ARGV[1]) }

local now = args[1]
-- Keys outlive what they say by a moment, and by an hour under a test's clock, which Redis' expiry does not go by.
local grace = 3600000
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  grace = 1
end

-- What strings hold is read once, and written once at the end: by place in KEYS, \`kept\` is what is to be written, and
-- \`views\` is what a rule made of it at this instant, with that rule behind it.
local texts = #KEYS > 0 and redis.call('MGET', unpack(KEYS)) or {}
local kept, views, healed = { false }, { false }, false
-- Is all zeros.
local NEVER_SEEN = '${'\\0'.repeat(48)}'
local functions = false

local firstBan, ban, change = args[2], false, false
${BANS}

local reply, said = { now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 1
-- Of each charge of the decision at hand its state, its wait, and for how long its key is banned.
local judged = { false, 0, 0 }

local cursor = args[4]
while cursor < told do
  local op, count, at = args[cursor + 1], args[cursor + 2], cursor + 2
  cursor = at
  if op == ${OPS.ban} then
    for _ = 1, count do
      ban.impose(args[at + 1], args[at + 2])
      at = at + 2
    end
    count = 0
  end
  local admitted = true
  for i = 1, op == ${OPS.fold} and 1 or count do
    local place, rule, offset, cost = args[at + 1], args[at + 3], args[at + 5], args[at + 6]
    local algorithm, state = args[rule], views[place]
    -- What is kept or stored of the key, as the rule sees it now. Rolling is done once: it changes nothing a second time.
    if not state or state[#state] ~= rule then
      if algorithm > ${LAST_IN_STRING} then
        state = { key = KEYS[place], rule = rule }
        functions = functions or {}
        ${FUNCTIONS}
      else
        state = kept[place] and { unpack(kept[place]) } or { unpacked(${LAYOUT}, texts[place] or NEVER_SEEN) }
        state[#state] = rule
        views[place] = state
      end
      local own = functions and functions[algorithm]
      local hasHealed = false
      do
        local healed = false
        ${run('roll')}
        hasHealed = healed
      end
      if hasHealed then
        healed = healed or {}
        healed[place] = true
      end
    end
    if op <= ${OPS.charge} then
      local own = functions and functions[algorithm]
      local wait, banned = 0, 0
      if op ~= ${OPS.charge} or algorithm > ${LAST_IN_STRING} then
        ${run('wait')}
      end
      if ban and op ~= ${OPS.charge} then banned = ban.of(args[at + 2], args[at + 4], op) end
      if (wait > 0 or banned > 0) and args[at + 7] == 0 then admitted = false end
      judged[3 * i - 2], judged[3 * i - 1], judged[3 * i] = state, wait, banned
      at = at + 8
    elseif op == ${OPS.fold} then
      -- Equal charges, each a decision of its own, of which none counts refusals: from the first refused on all are.
      local slot, banned, times = args[at + 8], ban and ban.of(args[at + 2], 0, ${OPS.attempt}) or 0, 0
      local size = #state - 1
      reply[said + 1] = banned
      for n = 1, size do reply[said + 2 + n] = state[n] end
      while banned == 0 and times < count do
        local wait = 0
        ${run('wait', 'in string')}
        if wait > 0 then break end
        if cost > 0 then ${run('add', 'in string')} end
        times = times + 1
      end
      if (times > 0 and cost > 0) or (healed and healed[place]) then
        kept[place] = state
        if healed then healed[place] = nil end
      end
      reply[said + 2] = times
      said = said + 2 + size
      at = at + 8
    else
      ${CHANGES}
      at = change(op, state, at)
    end
  end
  if op <= ${OPS.charge} then
    -- A decision: all its charges or none.
    local answer, delayed = said, 0
    said = said + 2
    for i = 1, count do
      local place, rule, offset, cost = args[cursor + 1], args[cursor + 3], args[cursor + 5], args[cursor + 6]
      local isFirm, slot = args[cursor + 7] == 0, args[cursor + 8]
      local algorithm, charged = args[rule], 0
      local state, wait, banned = judged[3 * i - 2], judged[3 * i - 1], judged[3 * i]
      local isInString = algorithm <= ${LAST_IN_STRING}
      local own = functions and functions[algorithm]
      if admitted and wait == 0 and banned == 0 then
        if isFirm then
          local delay = 0
          ${run('delay')}
          delayed = max(delayed, delay)
        end
        if op ~= ${OPS.peek} and cost > 0 then
          if not isInString then slot = ARGV[slot] end
          ${run('add')}
          charged = 1
        end
      end
      if charged == 1 or (op ~= ${OPS.peek} and healed and healed[place]) then
        if not isInString then own.keep(state) end
        kept[place] = state
        if healed then healed[place] = nil end
      end
      if wait > 0 and banned == 0 and isFirm and args[cursor + 4] > 0 then
        banned = ban.strike(args[cursor + 2], args[cursor + 4])
      end
      reply[said + 1], reply[said + 2] = banned, charged
      said = said + 2
      if isInString then
        local size = #state - 1
        for n = 1, size do reply[said + n] = state[n] end
        said = said + size
      else
        local remaining, resetAfter, nextAfter = 0, 0, 0
        ${run('remaining', 'elsewhere')}
        ${run('resetAfter', 'elsewhere')}
        if resetAfter > 0 then
          local cost, wait = remaining + 1, 0
          ${run('wait', 'elsewhere')}
          nextAfter = wait
        end
        reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = wait, remaining, nextAfter, resetAfter
        said = said + 4
      end
      cursor = cursor + 8
    end
    reply[answer + 1], reply[answer + 2] = admitted and 1 or 0, delayed
  end
  cursor = at
end

for place = 1, firstBan do
  local state = kept[place]
  if state then
    local rule, resetAfter = state.rule or state[#state], 0
    local algorithm = args[rule]
    local own = functions and functions[algorithm]
    ${run('resetAfter')}
    -- A key that is whole goes; what held nothing back cannot be owed.
    local ms = ceil(max(0, resetAfter) / 1000) + grace
    if algorithm <= ${LAST_IN_STRING} then
      local text, ends = texts[place], false
      if text then
        ${run('ends')}
      end
      local written = pack(${LAYOUT}, unpack(state, 1, #state - 1))
      if ends == now + resetAfter then
        -- It lives as long as it does already, which costs half as much to say.
        redis.call('SET', KEYS[place], written, 'KEEPTTL')
      else
        redis.call('SET', KEYS[place], written, 'PX', format('%d', ms))
      end
    elseif state.count > 0 then
      redis.call('PEXPIRE', state.key, format('%d', ms))
    end
  end
end
for place, rule in pairs(ban and ban.struck or {}) do
  local state = ban.states[place]
  local ms = ceil(ban.forgottenAfter(state, now, rule ~= true and rule) / 1000) + grace
  redis.call('SET', KEYS[place], pack('${banTwin.layout}', unpack(state, 1, 5)), 'PX', format('%d', ms))
end
return pack(${layoutOfDoubles('said')}, unpack(reply, 1, said))
`;

export const SHA: string = createHash('sha1').update(SCRIPT).digest('hex');
