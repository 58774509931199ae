// Runs one of the workspace's scripts on a machine that has only Node and npm: brings the pinned pnpm
// through npx and installs what the lock file says when node_modules does not match it yet.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const { packageManager } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));

const modified = (file) => statSync(`${root}/${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** @param {string[]} args */
function pnpm(...args) {
  // A variable that npm sets for its own scripts would make pnpm warn about settings it does not know.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_config_')),
  );
  const { status, error } = spawnSync('npx', ['--yes', packageManager, ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

const [script, ...args] = process.argv.slice(2);
if (!script) throw new TypeError('Usage: node scripts/with-pnpm.mjs <script> [arguments]');

if (modified('node_modules/.modules.yaml') < modified('pnpm-lock.yaml')) {
  pnpm('install', '--frozen-lockfile', '--reporter=append-only');
}
pnpm('run', '--silent', script, ...args);
