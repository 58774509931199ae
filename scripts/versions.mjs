// Runs the tests with the oldest versions of the frameworks and clients that the packages say they work with, and with
// every Redis or Valkey server that is named: npm run test:versions [-- /path/to/valkey-server …]
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installed, run, sumUp } from './test-runs.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The oldest version of each major one that a range allows, by the name that tests import it under. */
function oldestOf([name, range]) {
  const versions = range.split('||').map((part) => part.trim().replace(/^\^/, ''));
  // Of a package that has only one name there, the oldest of all.
  return versions.reverse().map((version) => {
    const major = `${name}${version.split('.')[0]}`;
    return [existsSync(join(root, 'test/node_modules', major)) ? major : name, name, version];
  });
}

const peers = readdirSync(join(root, 'packages')).flatMap((name) => {
  const text = readFileSync(join(root, 'packages', name, 'package.json'), 'utf8');
  return Object.entries(JSON.parse(text).peerDependencies ?? {});
});
const oldest = new Map(peers.flatMap(oldestOf).map(([alias, ...rest]) => [alias, rest]));
// Each with what it needs itself, and by the file that Node would load: a bundler may prefer one that Node cannot.
const paths = [];
for (const [alias, [name, version]] of oldest) {
  const modules = await installed(`${name}@${version}`);
  paths.push([alias, createRequire(join(modules, 'tests.cjs')).resolve(name)]);
}

const lines = [
  await run([...oldest.values()].map(([name, version]) => `${name} ${version}`).join(', '), {
    env: { TOLLGATE_VERSIONS: JSON.stringify(Object.fromEntries(paths)) },
    files: ['test/redis', 'test/http', 'packages/express', 'packages/fastify', 'test/metrics'],
  }),
];
for (const server of process.argv.slice(2)) {
  const { stdout } = spawnSync(server, ['--version'], { encoding: 'utf8' });
  const [, make = server, version = ''] = /^(\w+) server v=(\S+)/.exec(stdout ?? '') ?? [];
  const env = { TOLLGATE_REDIS_SERVER: server };
  lines.push(await run(`${make} ${version}`, { env, files: ['test/redis'] }));
}
sumUp(lines);
