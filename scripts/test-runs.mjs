// Runs the tests several times, each time with another version of something, and sums up what came of it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environment } from './environment.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const vitest = join(root, 'node_modules/vitest/vitest.mjs');
/** How our reporter closes. */
const CLOSING = /^(\d+) passed, (\d+) failed/m;

const folders = mkdtempSync(join(tmpdir(), 'tollgate-versions-'));
process.once('exit', () => rmSync(folders, { recursive: true, force: true }));

/** Installs packages in a folder of their own, which is removed when the process ends. Returns its node_modules. */
export async function installed(...packages) {
  const folder = mkdtempSync(join(folders, 'with-'));
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  const child = spawn(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', ...packages],
    {
      cwd: folder,
      env: environment,
      stdio: ['ignore', 'ignore', 'inherit'],
      shell: process.platform === 'win32',
    },
  );
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`npm could not install ${packages.join(', ')}.`);
  return join(folder, 'node_modules');
}

/**
 * Runs test files, all without any named, and returns a line of the table.
 *
 * @param what what the line says was run.
 */
export async function run(what, { node = process.execPath, env = {}, files = [] }) {
  console.log(`\n${what}`);
  const path = [dirname(node), process.env.PATH].join(delimiter);
  const child = spawn(node, [vitest, 'run', ...files], {
    cwd: root,
    env: { ...environment, ...env, PATH: path, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    said += text;
    process.stdout.write(text);
  });
  const [code] = await once(child, 'close');
  const [, passed = '0', failed = '0'] = CLOSING.exec(said) ?? [];
  return { what, passed, failed, ok: code === 0 && passed !== '0' };
}

/** Prints the table, and lets the process fail when a run did. */
export function sumUp(lines) {
  console.log('\n| with | passed | failed | |\n| --- | --: | --: | --- |');
  for (const { what, passed, failed, ok } of lines) {
    console.log(`| ${what} | ${passed} | ${failed} | ${ok ? '' : 'FAILED'} |`);
  }
  if (lines.some(({ ok }) => !ok)) process.exitCode = 1;
}
