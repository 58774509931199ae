import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { PAGE } from '../src/page/page.ts';
import { SCRIPT } from '../src/page/script.ts';
import { STYLE } from '../src/page/style.ts';

const OXLINT = fileURLToPath(new URL('../../../node_modules/oxlint/bin/oxlint', import.meta.url));

/** What the linter says of the script, which is a text to it where it stands. */
function lint(script: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-script-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'script.js');
  const config = join(folder, '.oxlintrc.json');
  writeFileSync(file, script);
  writeFileSync(
    config,
    JSON.stringify({
      env: { browser: true, es2024: true },
      categories: { correctness: 'error' },
      rules: { 'no-undef': 'error', 'no-unused-vars': 'error' },
    }),
  );
  const { stdout, stderr } = spawnSync(process.execPath, [OXLINT, '-c', config, file], {
    encoding: 'utf8',
  });
  return `${stdout}${stderr}`;
}

it('has a script that the linter has nothing to say of', () => {
  expect(lint(SCRIPT)).toContain('Found 0 warnings and 0 errors');
  expect(lint(`${SCRIPT}\nundeclared();`)).toContain('undeclared');
});

it('makes no markup of a text, and has no end of its element in it', () => {
  expect(SCRIPT).not.toMatch(/innerHTML|outerHTML|insertAdjacent|document\.write|<\/script|<!--/);
  expect(STYLE).not.toMatch(/<\/style|url\(|@import/);
});

it('is small enough to be sent whole', () => {
  expect(Buffer.byteLength(PAGE)).toBeLessThan(64_000);
});
