// node bench/render.mjs [folder]: writes RESULTS.md and plots anew from the words of RESULTS.template.md and the
// figures of results/*.json. No figure is copied by hand. A suite without a result keeps what RESULTS.md says of it.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeMachine } from './machine.mjs';
import { plot } from './plot.mjs';
import { reading } from './reading.mjs';
import { Samples } from './samples.mjs';
import { SUITES } from './suites.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** All that is said of a result: where it is from, its tables, and which claims it meets. */
export function section(result) {
  const { suite, command, date, commit, minutes, keptDisturbed, machine, settings } = result;
  const samples = new Samples(result.samples);
  const dropped = keptDisturbed
    ? 'disturbed measurements kept'
    : `${samples.disturbed} of ${samples.taken} measurements dropped as disturbed`;
  const from = `Measured on ${date} at commit ${commit} by \`${command}\` in ${minutes.toFixed(1)} min, rounds: ${samples.rounds}; ${dropped}.`;
  const claims = reading(suite, samples);
  return [
    from,
    describeMachine(machine),
    SUITES[suite].report(samples, settings),
    ...(claims === '' ? [] : [claims]),
  ].join('\n\n');
}

function resultOf(folder, suite) {
  const path = `${folder}/results/${suite}.json`;
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

/** What stands between a suite's marks; undefined where there are none. */
function between(page, suite) {
  const [, text] = new RegExp(`<!-- ${suite} -->\n([^]*?)<!-- /${suite} -->`).exec(page) ?? [];
  return text?.trim();
}

/** A result's picture and text. */
function shown(folder, suite, result) {
  const { title, panels } = SUITES[suite];
  mkdirSync(`${folder}/plots`, { recursive: true });
  const samples = new Samples(result.samples);
  writeFileSync(`${folder}/plots/${suite}.svg`, plot(title, panels(samples, result.settings)));
  return `![${title}](plots/${suite}.svg)\n\n${section(result)}`;
}

/** Writes RESULTS.md and plots of the results in a folder. */
export function render(folder) {
  const template = readFileSync(`${HERE}/RESULTS.template.md`, 'utf8');
  const path = `${folder}/RESULTS.md`;
  const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const page = template.replaceAll(/^<!-- (\w+) -->$/gm, (mark, suite) => {
    const result = resultOf(folder, suite);
    const text =
      result === undefined
        ? (between(before, suite) ?? 'Not measured yet.')
        : shown(folder, suite, result);
    return `${mark}\n\n${text}\n\n<!-- /${suite} -->`;
  });
  writeFileSync(path, page);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) render(process.argv[2] ?? HERE);
