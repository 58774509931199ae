// Decisions over Redis: how many per second, their times, what they cost Redis, and bytes per key.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { pinned, pins, undisturbed } from './machine.mjs';
import { startRedis } from './redis-server.mjs';
import { FLOORS, SUBJECTS } from './redis-subjects.mjs';
import { cell, roundsWithin, Samples, table } from './samples.mjs';

export const IN_FLIGHT = [1, 64, 256];
const KINDS = { hot: 'One hot key', distinct: '10,000 keys in turn' };
const LOADS = Object.keys(KINDS).flatMap((kind) =>
  IN_FLIGHT.map((inFlight) => ({ kind, inFlight })),
);
const COLUMNS = {
  perSecond: 'Decisions per second',
  p50: 'p50 µs',
  p99: 'p99 µs',
  redisCpu: 'Redis CPU µs',
  ownCpu: 'Own CPU µs',
  commands: 'Commands',
  sent: 'Round trips',
};
const path = fileURLToPath(new URL('redis-child.mjs', import.meta.url));

/** A fresh server, and a subject in a process of its own. */
async function inProcess(argument) {
  const server = await startRedis();
  try {
    const text = JSON.stringify({ ...argument, port: server.port });
    const started = spawn(...pinned(pins?.load, process.execPath, [path, text]), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    return await new Promise((resolve, reject) => {
      let sample;
      started.once('message', (message) => {
        sample = message;
      });
      started.once('error', reject);
      started.once('exit', (code) => {
        if (sample === undefined) reject(new Error(`${argument.name} ended with ${code}`));
        else resolve(sample);
      });
    });
  } finally {
    await server.stop();
  }
}

function tableOf(samples, names, load) {
  const metrics = Object.keys(COLUMNS);
  const [first, ...others] = metrics.map((metric) => `${load.kind} ${load.inFlight} ${metric}`);
  return table(
    ['per decision', COLUMNS.perSecond, '× INCR', ...Object.values(COLUMNS).slice(1)],
    names.map((name) => [
      name,
      cell(samples.of(name, first)),
      cell(samples.ratio(name, FLOORS.incr, first)),
      ...others.map((metric) => cell(samples.of(name, metric))),
    ]),
  );
}

const isFloor = (name) => Object.values(FLOORS).includes(name);

function measured(samples) {
  return Object.keys(SUBJECTS).filter((name) => samples.has(name));
}

export const redis = {
  title: 'Decisions over Redis',
  rounds: 3,
  minutes: 8,
  settings: { seconds: 1, warmSeconds: 1.5, keys: 50_000 },
  quick: { seconds: 0.3, warmSeconds: 0.2, keys: 5_000 },
  async measure(options) {
    const { settings, chosen, tell } = options;
    const names = Object.keys(SUBJECTS).filter((name) => isFloor(name) || chosen(name));
    const samples = new Samples();
    for (const round of roundsWithin(options)) {
      for (const name of names) {
        const sample = await undisturbed(samples, options, () =>
          inProcess({ name, loads: LOADS, ...settings }),
        );
        if (sample !== undefined) samples.add(round, name, sample);
        tell(name, round, sample);
      }
    }
    return samples;
  },
  report(samples, { seconds, warmSeconds, keys }) {
    const names = measured(samples);
    const tables = LOADS.map(
      (load) =>
        `${KINDS[load.kind]}, ${load.inFlight} in flight:\n\n${tableOf(samples, names, load)}`,
    );
    const bytes = table(
      ['', 'Bytes per key'],
      names.map((name) => [name, cell(samples.of(name, 'bytesPerKey'))]),
    );
    return [
      `All on ioredis, each ${seconds} s after ${warmSeconds} s that do not count, a fresh server each. Commands are all that Redis carried out, those in scripts too; round trips are the commands that were sent.`,
      ...tables,
      `What Redis' memory grows by, over ${keys.toLocaleString('en-US')} keys:\n\n${bytes}`,
    ].join('\n\n');
  },
  panels(samples) {
    const bars = (metric) =>
      measured(samples).map((name) => ({ name, numbers: samples.of(name, metric) }));
    return [
      ...LOADS.map(({ kind, inFlight }) => ({
        title: `${KINDS[kind]}, ${inFlight} in flight, decisions per second`,
        bars: bars(`${kind} ${inFlight} perSecond`),
      })),
      { title: 'Bytes per key', bars: bars('bytesPerKey') },
    ];
  },
};
