// Runs all tests on every version of Node that the packages are for: npm run test:nodes [-- 22 24]
import { join } from 'node:path';
import { installed, run, sumUp } from './test-runs.mjs';

const asked = process.argv.slice(2);
const versions = asked.length > 0 ? asked : ['20', '22', '24', '26'];

const lines = [];
for (const version of versions) {
  const modules = await installed(`node@${version}`);
  lines.push(await run(`Node ${version}`, { node: join(modules, 'node/bin/node') }));
}
sumUp(lines);
