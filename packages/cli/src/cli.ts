#!/usr/bin/env node
import { TollgateConfigError, TollgateStoreError } from '@tollgate/core';
import { replayCommand } from './commands/replay.ts';
import { schemaCommand } from './commands/schema.ts';
import { keysCommand } from './keys/command.ts';
import { UnreadableLogError } from './log/bytes.ts';
import { HELP, helpOf, UsageError } from './usage.ts';

const COMMANDS = new Map<string, (args: readonly string[]) => string | Promise<string>>([
  ['replay', replayCommand],
  ['keys', keysCommand],
  ['schema', schemaCommand],
]);

async function run([name, ...args]: readonly string[]): Promise<string> {
  if (name === undefined) throw new UsageError('Which command?');
  if (name === 'help' || name === '--help' || name === '-h') return HELP;
  const command = COMMANDS.get(name);
  if (command === undefined) throw new UsageError(`There is no command "${name}".`);
  if (args.includes('--help') || args.includes('-h')) return helpOf(name);
  return command(args);
}

function fail(error: unknown): void {
  if (error instanceof UsageError) {
    process.stderr.write(`tollgate: ${error.message}\nSee tollgate --help.\n`);
    process.exitCode = 2;
  } else if (error instanceof TollgateConfigError || error instanceof UnreadableLogError) {
    process.stderr.write(`tollgate: ${error.message}\n`);
    process.exitCode = 2;
  } else if (error instanceof TollgateStoreError) {
    const cause = error.cause instanceof Error ? error.cause.message : '';
    const isCluster = /\bMOVED\b|cross-?slot/i.test(cause);
    const told = error.message.includes(cause) ? error.message : `${error.message} (${cause})`;
    const mend = isCluster ? '; this Redis is a cluster: add --cluster' : '';
    process.stderr.write(`tollgate: ${told}${mend}\n`);
    process.exitCode = 1;
  } else throw error;
}

// Whoever reads our output may stop early, as head does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

void run(process.argv.slice(2)).then((text) => process.stdout.write(text), fail);
