import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const ROOT: string = fileURLToPath(new URL('../..', import.meta.url));

/** Builds the packages unless what is built is newer than every source. */
export function build(): void {
  const { status, stdout, stderr } = spawnSync('node', ['scripts/build.mjs', '--if-stale'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`The packages cannot be built.\n${stdout}\n${stderr}`);
}
