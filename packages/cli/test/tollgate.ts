import { spawn } from 'node:child_process';
import { ROOT } from '../../../test/readme/built.ts';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** Standard input. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs the command as it is built. */
export async function tollgate(
  args: readonly string[],
  { cwd, input = '', env = {} }: RunOptions = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [`${ROOT}packages/cli/dist/cli.mjs`, ...args], {
    cwd,
    env: { ...process.env, ...env },
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  // A command that does not read its input may be gone before it was written.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out, err };
}
