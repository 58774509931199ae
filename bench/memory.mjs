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

/** Nanoseconds per decision and bytes per key. */
export async function decisions(options) {
  const { quick, chosen } = options;
  const keys = quick ? 200_000 : 1_000_000;
  const names = Object.keys(SUBJECTS).filter((name) => name === FLOOR || chosen(name));
  const samples = await measure('decision-child.mjs', names, { keys }, options);
  const many = keys.toLocaleString('en-US');
  const metrics = { hot: 'One key', refused: 'One key, refused', random: `${many} keys at random` };
  const times = table(
    ['ns per decision', ...Object.values(metrics), 'Bytes per key'],
    names.map((name) => [
      name,
      ...[...Object.keys(metrics), 'bytesPerKey'].map((metric) => cell(samples.of(name, metric))),
    ]),
  );
  const ratios = Object.entries(metrics).map(
    ([metric, title]) =>
      `${title}: a row's cost divided by a column's.\n\n${matrix(samples, names, metric)}`,
  );
  return { title: 'Decisions in memory', samples, text: [times, ...ratios].join('\n\n') };
}

/** The longest pauses of the event loop while keys come and while they expire. */
export async function expiry(options) {
  const { quick, chosen } = options;
  const size = quick
    ? { keys: 200_000, windowMs: 1_500, fillMs: 800 }
    : { keys: 1_000_000, windowMs: 3_500, fillMs: 1_900 };
  const names = EXPIRING.filter(chosen);
  const samples = await measure('expiry-child.mjs', names, size, options);
  const times = table(
    [
      'longest pause, ms',
      'Keys come',
      'Before',
      'Keys expire',
      'Keys expire, least',
      'Bytes per key after',
    ],
    names.map((name) => [
      name,
      ...['filling', 'calm', 'expiring'].map((metric) => cell(samples.of(name, metric))),
      cell(leastOf(samples.of(name, 'expiring'))),
      cell(samples.of(name, 'bytesAfter')),
    ]),
  );
  const text = `${size.keys.toLocaleString('en-US')} keys come within ${size.fillMs / 1_000} s and expire after ${size.windowMs / 1_000} s, under 100,000 decisions per second.\n\n${times}`;
  return { title: 'Keys that come and go', samples, text };
}
