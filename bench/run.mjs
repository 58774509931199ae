// node bench/run.mjs [suite …] [--rounds n] [--quick] [--only pattern] [--keep-disturbed] [--write]
// Suites: decisions, expiry, fastify, express, redis; default all. Run through `npm run bench -- …`, it builds first.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { http } from './http.mjs';
import { describeMachine } from './machine.mjs';
import { decisions, expiry } from './memory.mjs';
import { reading } from './reading.mjs';
import { redis } from './redis.mjs';

/** `minutes`: fewer rounds are made where they would take longer, unless they are asked for by number. */
const SUITES = {
  decisions: { rounds: 5, minutes: 4, run: decisions },
  expiry: { rounds: 2, minutes: 1.8, run: expiry },
  fastify: {
    rounds: 5,
    minutes: 2.5,
    run: (options) => http('fastify', 'Fastify', options),
  },
  express: {
    rounds: 5,
    minutes: 3,
    run: (options) => http('express', 'Express', options),
  },
  redis: { rounds: 3, minutes: 5, run: redis },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    'keep-disturbed': { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
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

const started = performance.now();
const results = {};
for (const name of chosenSuites) {
  const { rounds: usual, minutes, run } = SUITES[name];
  results[name] = await run({
    rounds: rounds ?? (values.quick ? 1 : usual),
    minutes: rounds === undefined ? minutes : Infinity,
    quick: values.quick,
    keepAll: values['keep-disturbed'],
    chosen: (subject) => only.test(subject),
    tell(what, round, sample) {
      const seconds = ((performance.now() - started) / 1_000).toFixed(0).padStart(4);
      process.stderr.write(
        `${seconds} s  ${what}, round ${round + 1}${sample === undefined ? ': disturbed' : ''}\n`,
      );
    },
  });
}

const quoted = process.argv.slice(2).map((text) => (/^[\w-]+$/.test(text) ? text : `'${text}'`));
const command = ['npm run bench', ...(quoted.length > 0 ? ['--'] : []), ...quoted].join(' ');
const sections = Object.values(results).map(({ title, samples, text }) => {
  const dropped = values['keep-disturbed']
    ? 'disturbed measurements kept'
    : `${samples.disturbed} of ${samples.taken} measurements dropped as disturbed`;
  return `## ${title}\n\n${text}\n\n(Rounds: ${samples.rounds}; ${dropped}.)`;
});
const report = `# Results

Measured by \`${command}\` in ${((performance.now() - started) / 60_000).toFixed(1)} min:

${describeMachine()}

Subjects take turns within a round. Each number is the median over the rounds, with the quartiles in brackets where
there was more than one; ratios and differences are taken within a round. Only ratios can be compared with those of
another machine.

${sections.join('\n\n')}

## Reading

${reading(results) || 'Too little was measured to say anything.'}
`;

process.stdout.write(report);
if (values.write) writeFileSync(new URL('RESULTS.md', import.meta.url), report);
