import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ROOT } from './readme/built.ts';

const PLOTS = `${ROOT}docs/plots/`;
const isPlot = (script: string): boolean =>
  script.endsWith('.mjs') && readFileSync(PLOTS + script, 'utf8').includes('export function draw');
const files = readdirSync(PLOTS);
const drawn = files.filter(isPlot).map((script) => script.replace(/\.mjs$/, ''));

it.each(drawn)('%s.svg is what its script draws', async (name) => {
  const { draw } = (await import(`${PLOTS}${name}.mjs`)) as { draw: () => string };
  const picture = draw();
  expect(draw()).toBe(picture);
  expect(readFileSync(`${PLOTS}${name}.svg`, 'utf8')).toBe(picture);
});

it('every other plot has a script that measures', () => {
  const pictures = files.filter((file) => file.endsWith('.svg')).map((file) => file.slice(0, -4));
  const measured = pictures.filter((name) => !drawn.includes(name));
  expect(measured.filter((name) => !files.includes(`${name}.mjs`))).toEqual([]);
});
