import type { Twin } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';

const METHOD = /\bfunction rule\.(\w+)/;

/**
 * The Lua that reads the rules of a call. The methods of an algorithm are made when the first of its rules is read, and
 * those that it takes over from another algorithm before.
 */
export const RULES: string = /* lua */ `
for i = 1, args[4] do
  local algorithm, self = args[cursor + 1], false
  cursor = cursor + 1
  ${TWINS.map(readerOf).join('')}
  rules[i] = setmetatable(self, made[algorithm])
end
`;

/** The Lua that makes the other methods, of the algorithms that a call has rules of. */
export const CHANGING_METHODS: string = TWINS.map(
  ([, { changes }], index) => /* lua */ `
  if made[${index + 1}] then
    local rule = made[${index + 1}]
    ${changes}
  end`,
).join('');

function readerOf([tag, { numbers, layout, lua, extends: parent }]: readonly [
  string,
  Twin,
]): string {
  const algorithm = numberOf(tag);
  const heirs = TWINS.filter(([, twin]) => twin.extends === tag).map(([heir]) => heir);
  const users = [tag, ...heirs].map((user) => `algorithm == ${numberOf(user)}`);
  const [helpers, ...methods] = lua.split(METHOD);
  return /* lua */ `
  -- ${tag}
  if (${users.join(' or ')}) and not made[${algorithm}] then
    ${helpers}
    local rule = {
      ${layout === undefined ? '' : `layout = '${layout}', size = ${sizeOf(layout)},`}
      ${asFields(methods)}
    }
    rule.__index = rule
    made[${algorithm}] = ${parent === undefined ? 'rule' : `setmetatable(rule, made[${numberOf(parent)}])`}
  end
  if algorithm == ${algorithm} then
    self = { ${numbers.map((name, n) => `${name} = args[cursor + ${n + 1}]`).join(', ')} }
    cursor = cursor + ${numbers.length}
  end`;
}

/** Names and bodies as fields of a table, which costs less than to set one after the other. */
function asFields(methods: readonly string[]): string {
  const fields: string[] = [];
  for (let i = 0; i < methods.length; i += 2) {
    fields.push(`${methods[i]} = function${methods[i + 1]}\n,`);
  }
  return fields.join('');
}

function numberOf(algorithm: string): number {
  return TWINS.findIndex(([tag]) => tag === algorithm) + 1;
}

/** How many numbers a layout holds. */
function sizeOf(layout: string): number {
  return layout.split(/[a-zA-Z]/).length - 1;
}
