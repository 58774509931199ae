import { UsageError } from '../usage.ts';
import { banCommand, peekCommand, resetCommand, unbanCommand } from './actions.ts';
import { topCommand } from './top.ts';

const ACTIONS = new Map<string, (args: readonly string[]) => Promise<string>>([
  ['top', topCommand],
  ['peek', peekCommand],
  ['reset', resetCommand],
  ['ban', banCommand],
  ['unban', unbanCommand],
]);

/** `tollgate keys`: returns what to print. */
export async function keysCommand([name, ...args]: readonly string[]): Promise<string> {
  const action = name === undefined ? undefined : ACTIONS.get(name);
  if (action !== undefined) return action(args);
  const there = [...ACTIONS.keys()].join(', ');
  throw new UsageError(`keys needs one of ${there}${name === undefined ? '' : `, got "${name}"`}.`);
}
