import { LAST_IN_STRING, run } from './engine-twins.ts';
import { GRANT } from './grant.ts';
import { OPS } from './ops.ts';

/**
 * The Lua that makes `change`, where there is none yet: it changes what was charged, or grants units ahead, and returns
 * the place after what it was told. A state that units were taken off may be whole, and is rolled anew when next seen.
 */
export const CHANGES: string = /* lua */ `
change = change or function(op, state, at)
  local place, rule, offset = args[at + 1], args[at + 3], args[at + 5]
  local units, slot, algorithm = args[at + 6], args[at + 8], args[rule]
  local own = functions and functions[algorithm]
  local isInString = algorithm <= ${LAST_IN_STRING}
  if not isInString then slot = ARGV[slot] end

  local function keep()
    if not isInString then own.keep(state) end
    kept[place] = state
    if healed then healed[place] = nil end
  end

  local function add(cost)
    ${run('add')}
    keep()
  end

  if op == ${OPS.grant} then
    ${GRANT}
  end
  at = at + 8
  if op == ${OPS.renew} then
    local holds = own and own.holds and own.holds(state, slot)
    if holds then add(1) end
    said = said + 1
    reply[said] = holds and 1 or 0
    return at
  end
  local isKnown = state.known or texts[place] or kept[place]
  if op == ${OPS.refund} then
    if isKnown then
      ${run('refund')}
      keep()
      views[place] = false
    end
    return at
  end
  local receipt = { unpack(args, at + 2, at + 1 + args[at + 1]) }
  if units > 0 then
    if not isInString then
      local remaining = 0
      ${run('remaining', 'elsewhere')}
      units = min(units, remaining)
    end
    if units > 0 then add(units) end
  elseif units < 0 and isKnown and #receipt > 0 then
    local given = false
    units = -units
    ${run('giveBack')}
    if given or (healed and healed[place]) then keep() end
    views[place] = false
  end
  return at + 1 + #receipt
end
`;
