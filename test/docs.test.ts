import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { blocksOf } from './readme/blocks.ts';
import { build, ROOT } from './readme/built.ts';

/** Pages whose every block of JavaScript is a module that ends by itself. */
const PAGES = ['overload.md'];

beforeAll(build, 180_000);

it.each(PAGES)('%s: every module prints what it says', (page) => {
  const modules = blocksOf(readFileSync(`${ROOT}docs/${page}`, 'utf8')).filter(
    ({ language }) => language === 'js',
  );
  expect(modules.length).toBeGreaterThan(0);
  // Modules find packages from where they stand, and nobody commits what is in node_modules.
  const folder = mkdtempSync(`${ROOT}test/node_modules/.docs-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [index, { code, printed }] of modules.entries()) {
    const file = `${folder}/${index}.mjs`;
    writeFileSync(file, code);
    const run = spawnSync(process.execPath, [file], { encoding: 'utf8', timeout: 30_000 });
    expect(run.stderr).toBe('');
    expect(run.stdout.trim().split('\n')).toEqual(printed);
  }
});
