// Runs one of the workspace's scripts on a machine that has only Node and npm: brings the pinned pnpm
// through npx and installs what the lock file says when node_modules does not match it yet.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { environment } from './environment.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { packageManager } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));

const modified = (file) => statSync(`${root}/${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** Runs pnpm and goes on when it is done. Signals that would end this process end pnpm first. */
async function pnpm(...args) {
  const child = spawn('npx', ['--yes', packageManager, ...args], {
    cwd: root,
    env: environment,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  const pass = (signal) => child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, pass);
  const [code, signal] = await once(child, 'exit');
  for (const each of ['SIGINT', 'SIGTERM']) process.off(each, pass);
  if (signal !== null) process.kill(process.pid, signal);
  if (code !== 0) process.exit(code ?? 1);
}

const [script, ...args] = process.argv.slice(2);
if (!script) throw new TypeError('Usage: node scripts/with-pnpm.mjs <script> [arguments]');

if (modified('node_modules/.modules.yaml') < modified('pnpm-lock.yaml')) {
  await pnpm('install', '--frozen-lockfile', '--reporter=append-only');
}
await pnpm('run', '--silent', script, ...args);
