import { parseArgs, type ParseArgsConfig } from 'node:util';
import { UsageError } from '../usage.ts';

/** Parses a command's arguments; what it cannot parse is a mistake of usage. */
export function parsed<T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: T,
): ReturnType<typeof parseArgs<{ args: string[]; options: T; allowPositionals: true }>> {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** A whole number of an option, within bounds. */
export function wholeNumber(
  option: string,
  text: string | undefined,
  least: number,
  most: number,
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new UsageError(`${option} must be a whole number from ${least} to ${most}, got "${text}".`);
}
