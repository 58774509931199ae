import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { build, ROOT } from './readme/built.ts';

const BENCH = `${ROOT}bench`;

beforeAll(build, 180_000);

it('RESULTS.md and its plots say what the results do', () => {
  const copy = mkdtempSync(`${ROOT}test/node_modules/.bench-`);
  onTestFinished(() => rmSync(copy, { recursive: true }));
  cpSync(`${BENCH}/RESULTS.md`, `${copy}/RESULTS.md`);
  const measured = existsSync(`${BENCH}/results`) ? readdirSync(`${BENCH}/results`) : [];
  if (measured.length > 0) cpSync(`${BENCH}/results`, `${copy}/results`, { recursive: true });
  const { status, stderr } = spawnSync('node', [`${BENCH}/render.mjs`, copy], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  for (const file of [
    'RESULTS.md',
    ...measured.map((name) => `plots/${name.replace('json', 'svg')}`),
  ]) {
    expect(readFileSync(`${copy}/${file}`, 'utf8')).toBe(readFileSync(`${BENCH}/${file}`, 'utf8'));
  }
});
