// node bench/run.mjs [suite …] [--rounds n] [--quick] [--only pattern] [--keep-disturbed] [--to folder]
// Measures suites (default all of suites.mjs) and writes what came out: results/<suite>.json, RESULTS.md, which
// render.mjs makes of all results there are, and plots. They go to this folder, or to another one with --to; without it
// a run that is --quick or --only writes nothing. Run through `npm run bench -- …`, it builds first.
import { mkdirSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { commit, machine } from './machine.mjs';
import { render, section } from './render.mjs';
import { SUITES } from './suites.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    'keep-disturbed': { type: 'boolean', default: false },
    to: { type: 'string' },
  },
});
const chosenSuites = positionals.length > 0 ? positionals : Object.keys(SUITES);
for (const name of chosenSuites) {
  if (!Object.hasOwn(SUITES, name)) {
    throw new TypeError(`There is no suite ${name}; there are ${Object.keys(SUITES).join(', ')}.`);
  }
}
const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0)) {
  throw new TypeError('--rounds must be a whole number of 1 or more.');
}
const only = new RegExp(values.only, 'i');
const isWhole = !values.quick && values.only === '';
const folder = values.to ?? (isWhole ? fileURLToPath(new URL('.', import.meta.url)) : undefined);
const quoted = process.argv.slice(2).map((text) => (/^[\w-]+$/.test(text) ? text : `'${text}'`));
const command = ['npm run bench', ...(quoted.length > 0 ? ['--'] : []), ...quoted].join(' ');
const started = performance.now();
/** Of the code that is loaded now, whatever is done to the files meanwhile. */
const from = { date: new Date().toISOString().slice(0, 10), commit: commit() };

function tell(what) {
  const seconds = ((performance.now() - started) / 1_000).toFixed(0).padStart(4);
  process.stderr.write(`${seconds} s  ${what}\n`);
}

/** What was measured, and everything that a reader has to know of it. */
async function measure(name) {
  const suite = SUITES[name];
  const settings = values.quick ? { ...suite.settings, ...suite.quick } : suite.settings;
  const began = performance.now();
  const samples = await suite.measure({
    settings,
    rounds: rounds ?? (values.quick ? 1 : suite.rounds),
    minutes: rounds === undefined ? suite.minutes : Infinity,
    quick: values.quick,
    keepAll: values['keep-disturbed'],
    chosen: (subject) => only.test(subject),
    tell: (subject, round, sample) =>
      tell(
        `${suite.title}, ${subject}, round ${round + 1}${sample === undefined ? ': disturbed' : ''}`,
      ),
  });
  if (samples.rounds === 0) throw new Error('nothing was measured that others did not disturb');
  return {
    suite: name,
    command,
    ...from,
    minutes: (performance.now() - began) / 60_000,
    keptDisturbed: values['keep-disturbed'],
    machine: machine(),
    settings,
    samples: samples.toJSON(),
  };
}

if (folder !== undefined) mkdirSync(`${folder}/results`, { recursive: true });
for (const name of chosenSuites) {
  try {
    const result = await measure(name);
    process.stdout.write(`## ${SUITES[name].title}\n\n${section(result)}\n\n`);
    if (folder === undefined) continue;
    writeFileSync(`${folder}/results/${name}.json`, `${JSON.stringify(result, null, 2)}\n`);
    render(folder);
  } catch (error) {
    // The other suites can still be measured.
    tell(`${name} failed: ${error.stack}`);
    process.exitCode = 1;
  }
}
