import { OPS } from './ops.ts';

/** The Lua that changes what was charged. A state that units were taken off may be whole, and is rolled anew then. */
export const CHANGES: string = /* lua */ `
function change(op)
  if op == ${OPS.ban} then
    ban.impose(args[cursor + 1], args[cursor + 2])
    cursor = cursor + 2
    return
  end
  local at = cursor
  cursor = at + 8
  local place, rule, offset = args[at + 1], rules[args[at + 3]], args[at + 5]
  local units, slot, state = args[at + 6], args[at + 8], view(place, rule, offset)
  if not rule.size then slot = ARGV[slot] end
  if op == ${OPS.renew} then
    local holds = rule.holds and rule:holds(state, slot)
    if holds then
      rule:add(state, 1, now, slot)
      keep(place, rule, state)
    end
    said = said + 1
    reply[said] = holds and 1 or 0
    return
  end
  local isKnown = state.known or texts[place] or kept[place]
  if op == ${OPS.refund} then
    if not isKnown then return end
    rule:refund(state, units, now)
    keep(place, rule, state)
    views[place] = nil
    return
  end
  local receipt = { unpack(args, cursor + 2, cursor + 1 + args[cursor + 1]) }
  cursor = cursor + 1 + #receipt
  if units >= 0 then
    if not rule.size then units = min(units, rule:remaining(state, now)) end
    if units == 0 then return end
    rule:add(state, units, now, slot, offset)
    keep(place, rule, state)
  elseif isKnown and #receipt > 0 then
    local given = rule:giveBack(state, -units, now, receipt, slot)
    if given or (healed and healed[place]) then keep(place, rule, state) end
    views[place] = nil
  end
end
`;
