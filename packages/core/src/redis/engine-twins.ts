import type { Twin } from '../algorithm.ts';
import { TWINS } from '../algorithms/index.ts';

type Block =
  | 'roll'
  | 'wait'
  | 'delay'
  | 'remaining'
  | 'resetAfter'
  | 'ends'
  | 'add'
  | 'refund'
  | 'giveBack';

/** Algorithms up to this one keep their state in a string. */
export const LAST_IN_STRING: number = TWINS.filter(([, { layout }]) => layout !== undefined).length;

/**
 * Lua that runs a block of the algorithm at hand, whose place in `TWINS` is the variable `algorithm`. The blocks are
 * put in full wherever they run: a function would cost more to make and to call than most of them.
 *
 * @param kept only of twins that keep their state in a string, or only of the others.
 */
export function run(block: Block, kept?: 'in string' | 'elsewhere'): string {
  const branches = TWINS.flatMap(([, twin], index) => {
    const lua = twin[block];
    const isAsked = kept === undefined || (kept === 'in string') === (twin.layout !== undefined);
    if (lua === undefined || lua === '' || !isAsked) return [];
    return [`algorithm == ${index + 1} then\n${numbersIn(lua, twin)}\n${lua}\n`];
  });
  return `if ${branches.join('elseif ')}end`;
}

/** A rule is told as its place among the arguments, where its algorithm stands, and then its numbers. */
function numbersIn(lua: string, { numbers }: Twin): string {
  const used = numbers.filter((name) => new RegExp(`\\b(?<!\\.)${name}\\b`).test(lua));
  if (used.length === 0) return '';
  const places = used.map((name) => `args[rule + ${numbers.indexOf(name) + 1}]`);
  return `local ${used.join(', ')} = ${places.join(', ')}`;
}

/** Lua that makes the functions of the algorithm at hand, in the table of tables `functions`, where there are none yet. */
export const FUNCTIONS: string = `if not functions[algorithm] then
  local own = {}
  functions[algorithm] = own
  ${TWINS.filter(([, twin]) => twin.functions !== undefined)
    .map(([tag, twin]) => `if algorithm == ${placeOf(tag)} then\n${twin.functions}\nend`)
    .join('\n')}
end`;

/** Lua for the layout of the algorithm at hand. */
export const LAYOUT: string = layoutOf();

function layoutOf(): string {
  const layouts = new Map<string, number[]>();
  for (const [index, [, { layout }]] of TWINS.entries()) {
    if (layout !== undefined) layouts.set(layout, [...(layouts.get(layout) ?? []), index + 1]);
  }
  return [...layouts]
    .map(([layout, places]) => {
      const are = places.map((place) => `algorithm == ${place}`).join(' or ');
      return `(${are}) and '${layout}'`;
    })
    .join(' or ');
}

function placeOf(algorithm: string): number {
  return TWINS.findIndex(([tag]) => tag === algorithm) + 1;
}
