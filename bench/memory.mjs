// Decisions in memory: their time, the memory of a key, and the pauses when many keys come and go.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { undisturbed } from './machine.mjs';
import { FLOOR, SUBJECTS } from './memory-subjects.mjs';
import { cell, roundsWithin, Samples, table } from './samples.mjs';

const OURS = Object.keys(SUBJECTS).filter((name) => name.startsWith('Tollgate'));
const PEERS = Object.keys(SUBJECTS).filter((name) => SUBJECTS[name].peer);
const EXPIRING = Object.keys(SUBJECTS).filter((name) => SUBJECTS[name].expires);

function inProcess(child, argument) {
  const path = fileURLToPath(new URL(child, import.meta.url));
  return new Promise((resolve, reject) => {
    const started = fork(path, [JSON.stringify(argument)], { execArgv: ['--expose-gc'] });
    let sample;
    started.once('message', (message) => {
      sample = message;
    });
    started.once('error', reject);
    started.once('exit', (code) => {
      if (sample === undefined) reject(new Error(`${child} ${argument.name} ended with ${code}`));
      else resolve(sample);
    });
  });
}

async function measure(child, names, argument, options) {
  const samples = new Samples();
  for (const round of roundsWithin(options)) {
    for (const name of names) {
      const sample = await undisturbed(samples, options, () =>
        inProcess(child, { name, ...argument }),
      );
      if (sample !== undefined) samples.add(round, name, sample);
      options.tell(name, round, sample);
    }
  }
  return samples;
}

function matrix(samples, names, metric) {
  const peers = PEERS.filter((name) => names.includes(name));
  return table(
    ['', ...peers],
    OURS.filter((name) => names.includes(name)).map((name) => [
      name,
      ...peers.map((peer) => cell(samples.ratio(name, peer, metric))),
    ]),
  );
}

/** The least of several: others on the machine only ever make a pause longer. */
function leastOf(numbers) {
  return numbers && { median: numbers.least, low: numbers.least, high: numbers.least };
}

const METRICS = { hot: 'One key', refused: 'One key, refused', random: 'Keys at random' };

function measured(samples) {
  return Object.keys(SUBJECTS).filter((name) => samples.has(name));
}

/** Nanoseconds per decision and bytes per key. */
export const decisions = {
  title: 'Decisions in memory',
  rounds: 5,
  minutes: 6,
  settings: { keys: 1_000_000 },
  quick: { keys: 200_000 },
  measure(options) {
    const names = Object.keys(SUBJECTS).filter((name) => name === FLOOR || options.chosen(name));
    return measure('decision-child.mjs', names, options.settings, options);
  },
  report(samples, { keys }) {
    const names = measured(samples);
    const times = table(
      ['ns per decision', ...Object.values(METRICS), 'Bytes per key'],
      names.map((name) => [
        name,
        ...[...Object.keys(METRICS), 'bytesPerKey'].map((metric) => cell(samples.of(name, metric))),
      ]),
    );
    const ratios = Object.entries(METRICS).map(
      ([metric, title]) =>
        `${title}: a row's cost divided by a column's.\n\n${matrix(samples, names, metric)}`,
    );
    const many = `Keys at random are ${keys.toLocaleString('en-US')}, each met before.`;
    return [many, times, ...ratios].join('\n\n');
  },
  panels(samples) {
    const names = measured(samples);
    return [...Object.entries(METRICS), ['bytesPerKey', 'Bytes per key']].map(
      ([metric, title]) => ({
        title: metric === 'bytesPerKey' ? title : `${title}, ns per decision`,
        bars: names.map((name) => ({ name, numbers: samples.of(name, metric) })),
      }),
    );
  },
};

/** The longest pauses of the event loop while keys come and while they expire. */
export const expiry = {
  title: 'Keys that come and go',
  rounds: 3,
  minutes: 3.5,
  settings: { keys: 1_000_000, windowMs: 3_500, fillMs: 1_900 },
  quick: { keys: 200_000, windowMs: 1_500, fillMs: 800 },
  measure(options) {
    const names = EXPIRING.filter(options.chosen);
    return measure('expiry-child.mjs', names, options.settings, options);
  },
  report(samples, { keys, windowMs, fillMs }) {
    const times = table(
      [
        'longest pause, ms',
        'Keys come',
        'Before',
        'Keys expire',
        'Keys expire, least',
        'Bytes per key after',
      ],
      measured(samples).map((name) => [
        name,
        ...['filling', 'calm', 'expiring'].map((metric) => cell(samples.of(name, metric))),
        cell(leastOf(samples.of(name, 'expiring'))),
        cell(samples.of(name, 'bytesAfter')),
      ]),
    );
    return `${keys.toLocaleString('en-US')} keys come within ${fillMs / 1_000} s and expire after ${windowMs / 1_000} s, under 100,000 decisions per second.\n\n${times}`;
  },
  panels(samples) {
    const titles = { filling: 'Keys come', expiring: 'Keys expire' };
    return Object.entries(titles).map(([metric, title]) => ({
      title: `${title}, longest pause in ms`,
      bars: measured(samples).map((name) => ({ name, numbers: samples.of(name, metric) })),
    }));
  },
};
