import { limitsSchema } from '@tollgate/core';
import { parsed } from './options.ts';

/** `tollgate schema`: the form of a limits file. */
export function schemaCommand(args: readonly string[]): string {
  parsed(args, {});
  return `${JSON.stringify(limitsSchema(), null, 2)}\n`;
}
