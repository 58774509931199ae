import { HOUR_MS, HOURS_KEPT } from '../refusals/recent.ts';

/** Keys kept of a limit and an hour. */
const COUNTERS = 200;
/** Limits whose names are kept. */
const MOST_NAMES = 1_000;
/** Longer than anybody looks back. */
const KEPT_MS: number = (HOURS_KEPT + 1) * HOUR_MS;

/**
 * Adds tallies to what is kept of their limits in an hour. Of more keys than there are counters those refused least go,
 * and how often a key that is not kept was refused at most is kept in their place: the merge of two space-saving
 * summaries. Text that is none of ours is written over.
 *
 * KEYS: one per tally. ARGV: for each, what `written` makes of it.
 */
export const ADD: string = `
local function stored(name)
  local text = redis.call('GET', name)
  local read, known = pcall(cjson.decode, text)
  if text and read and type(known) == 'table' and known.keys then return known end
  return { missed = 0, keys = {} }
end

for place, name in ipairs(KEYS) do
  local tally, known = cjson.decode(ARGV[place]), stored(name)
  local byKey, list = {}, {}
  for _, entry in ipairs(known.keys) do
    byKey[entry[1]] = entry
    list[#list + 1] = entry
    entry[3] = entry[3] + tally.missed
  end
  for _, entry in ipairs(tally.keys) do
    local sum = byKey[entry[1]]
    if sum then
      sum[2] = sum[2] + entry[2]
      sum[3] = sum[3] + entry[3] - tally.missed
      sum[4] = math.min(sum[4], entry[4])
      sum[5] = math.max(sum[5], entry[5])
    else
      entry[3] = entry[3] + known.missed
      list[#list + 1] = entry
    end
  end
  local missed = known.missed + tally.missed
  table.sort(list, function(a, b) return a[2] + a[3] > b[2] + b[3] end)
  for i = #list, ${COUNTERS + 1}, -1 do
    missed = math.max(missed, list[i][2] + list[i][3])
    list[i] = nil
  end
  local kept = cjson.encode({ shadow = tally.shadow, missed = missed, keys = list })
  redis.call('SET', name, kept, 'PX', '${KEPT_MS}')
end
return 1
`;

/**
 * Notes which limits were tallied, so that they are found without looking through all keys.
 *
 * KEYS: the one of the names. ARGV: an hour, and the names.
 */
export const NAME: string = `
local text = redis.call('GET', KEYS[1])
local names, count = {}, 0
for name, hour in pairs(text and cjson.decode(text) or {}) do
  if hour > tonumber(ARGV[1]) - ${HOURS_KEPT} then
    names[name] = hour
    count = count + 1
  end
end
for i = 2, #ARGV do
  if names[ARGV[i]] or count < ${MOST_NAMES} then
    if not names[ARGV[i]] then count = count + 1 end
    names[ARGV[i]] = tonumber(ARGV[1])
  end
end
redis.call('SET', KEYS[1], cjson.encode(names), 'PX', '${KEPT_MS}')
return 1
`;
