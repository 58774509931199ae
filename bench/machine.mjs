// The machine that is measured on: what it is, and who else is using it.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { fileURLToPath } from 'node:url';

/** Cores used by others from which a measurement is thrown away. */
const DISTURBED = 0.25;
/** Of /proc, on every Linux. */
const TICKS_PER_SECOND = 100;
const PACKAGES = [
  '@fastify/rate-limit',
  'express',
  'express-rate-limit',
  'fastify',
  'ioredis',
  'rate-limit-redis',
  'rate-limiter-flexible',
];

/** The version of a package, from the manifest somewhere above its entry: not every package exports it. */
function versionOf(name) {
  for (let folder = import.meta.resolve(name); ; folder = new URL('..', folder)) {
    try {
      const manifest = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
      if (manifest.name === name) return manifest.version;
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
    if (new URL(folder).pathname === '/') throw new Error(`${name} is not installed`);
  }
}

/** What a command says of its version; undefined where there is no such command. */
function said(command, option) {
  const { error, stdout } = spawnSync(command, [option], { encoding: 'utf8' });
  return error === undefined ? stdout : undefined;
}

/** The cores that this process may use. */
function ownCores() {
  if (process.platform !== 'linux') return [];
  const status = readFileSync('/proc/self/status', 'utf8');
  return /^Cpus_allowed_list:(.*)$/m.exec(status)?.[1].match(/\d+/g) ?? [];
}

const cores = ownCores();
/** The cores for the server and for the load, where processes can be bound to one. */
export const pins =
  cores.length > 1 && said('taskset', '--version') !== undefined
    ? { server: cores[0], load: cores.at(-1) }
    : undefined;

const wrk = said('wrk', '-v');
/** Undefined where there is no wrk. */
export const wrkVersion = wrk && /^wrk (\S+)/.exec(wrk)?.[1];

const redisServer = said('redis-server', '--version');
/** Undefined where there is no redis-server. */
export const redisVersion = redisServer && /v=(\S+)/.exec(redisServer)?.[1];

/** A command line, bound to a core if that can be. */
export function pinned(core, command, args) {
  if (pins === undefined) return [command, args];
  return ['taskset', ['-c', core, command, ...args]];
}

/** What a reader has to know of the machine, and of what was installed on it. */
export function machine() {
  return {
    processor: `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown CPU'}`,
    memory: `${(totalmem() / 2 ** 30).toFixed(1)} GiB`,
    system: `${type()} ${release()}`,
    node: `${process.version}, V8 ${process.versions.v8}`,
    packages: Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
    load: wrkVersion ? `wrk ${wrkVersion}` : `autocannon ${versionOf('autocannon')}`,
    redis: redisVersion ?? 'not installed',
    places: pins
      ? `servers on core ${pins.server}, load on core ${pins.load}`
      : 'processes not bound to cores',
  };
}

/** The same as a list. */
export function describeMachine({
  processor,
  memory,
  system,
  node,
  packages,
  load,
  redis,
  places,
}) {
  return [
    `- ${processor}, ${memory}, ${system}`,
    `- Node.js ${node}`,
    `- ${Object.entries(packages)
      .map((each) => each.join(' '))
      .join(', ')}`,
    `- load by ${load}; redis-server ${redis}; ${places}`,
  ].join('\n');
}

function git(...args) {
  const { error, status, stdout } = spawnSync('git', args, {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    encoding: 'utf8',
  });
  return error === undefined && status === 0 ? stdout.trim() : undefined;
}

/** The commit that is measured, and whether what is measured is not quite that. */
export function commit() {
  const head = git('rev-parse', '--short=10', 'HEAD');
  if (head === undefined) return 'unknown';
  return git('status', '--porcelain', '--', 'packages', 'bench/*.mjs') === ''
    ? head
    : `${head} with changes`;
}

function fields(path) {
  const text = readFileSync(path, 'utf8');
  // The name of a process may hold anything, and ends with the last bracket.
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** Ticks used by this process and all it started, those that have ended included. */
function ourTicks() {
  const parents = new Map();
  const ticks = new Map();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = fields(`/proc/${pid}/stat`);
      parents.set(pid, stat[1]);
      ticks.set(
        pid,
        stat.slice(11, 15).reduce((sum, each) => sum + Number(each), 0),
      );
    } catch (error) {
      // It has ended meanwhile.
      if (error.code !== 'ENOENT' && error.code !== 'ESRCH') throw error;
    }
  }
  const isOurs = (pid) =>
    pid === `${process.pid}` || (parents.has(pid) && isOurs(parents.get(pid)));
  let sum = 0;
  for (const [pid, used] of ticks) if (isOurs(pid)) sum += used;
  return sum;
}

/** Ticks in which the machine was busy with processes, and those that a hypervisor took away. */
function busyTicks() {
  const [user, nice, system, , , , , steal] = readFileSync('/proc/stat', 'utf8')
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return user + nice + system + steal;
}

/**
 * Measures under watch: again, once unless in haste, if other processes used the machine meanwhile or there was
 * nothing to measure (null). Where /proc does not tell, every measurement counts.
 */
export async function undisturbed(samples, { quick, keepAll }, measure) {
  for (let attempt = 0; attempt < (quick ? 1 : 2); attempt++) {
    const foreign = watch();
    const sample = await measure();
    const cores = foreign();
    samples.taken++;
    if (sample !== null && (keepAll || cores < DISTURBED)) return sample;
    samples.disturbed++;
  }
  return undefined;
}

function watch() {
  if (process.platform !== 'linux') return () => 0;
  const from = performance.now();
  const before = busyTicks() - ourTicks();
  return () => {
    const seconds = (performance.now() - from) / 1_000;
    return (busyTicks() - ourTicks() - before) / TICKS_PER_SECOND / seconds;
  };
}
