// Builds the packages. With --if-stale only when what is built is older than a source, and by one process at a time.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { environment } from './environment.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { packageManager } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
const packages = readdirSync(`${root}packages`).map((name) => `${root}packages/${name}`);
const lock = `${root}node_modules/.tollgate-build`;
const LONGEST_BUILD_MS = 120_000;

const modified = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function isBuilt() {
  const oldest = Math.min(...packages.map((path) => modified(`${path}/dist/index.mjs`)));
  return packages.every((path) =>
    readdirSync(`${path}/src`, { recursive: true, encoding: 'utf8' }).every(
      (file) => modified(`${path}/src/${file}`) < oldest,
    ),
  );
}

/** A directory is made by one process only. One that outlives every build was left by a process that was ended. */
function takeLock() {
  if (Date.now() - modified(lock) > LONGEST_BUILD_MS) {
    mkdirSync(lock, { recursive: true });
    rmdirSync(lock);
  }
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}

/** Node 20 is our floor, and this version of the bundler its last one: what it says of that helps nobody. */
const isNoise = (line) => /Node\.js v\S+ is deprecated/.test(line);

function build(args) {
  // The package checks run pnpm themselves, which npx puts on the PATH.
  const { status, stdout, stderr } = spawnSync(
    'npx',
    ['--yes', packageManager, 'exec', 'tsdown', ...args],
    { cwd: root, encoding: 'utf8', env: environment, shell: process.platform === 'win32' },
  );
  const said = `${stdout}${stderr}`.split('\n').filter((line) => line !== '' && !isNoise(line));
  if (said.length > 0) console.log(said.join('\n'));
  if (status !== 0) process.exit(status ?? 1);
}

if (!process.argv.includes('--if-stale')) {
  build([]);
} else {
  while (!isBuilt()) {
    if (!takeLock()) {
      await sleep(200);
      continue;
    }
    try {
      if (!isBuilt()) build(['--logLevel', 'error']);
    } finally {
      rmdirSync(lock);
    }
    break;
  }
}
