// One hot key that eight processes share: decisions of all of them, and calls to Redis, within the budget and beyond.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { OURS, SUBJECTS } from './leases-subjects.mjs';
import { pinned, pins, undisturbed } from './machine.mjs';
import { startRedis } from './redis-server.mjs';
import { cell, roundsWithin, Samples, table } from './samples.mjs';

const PROCESSES = 8;
/** Within the budget nobody is ever refused; beyond it, everybody soon. */
const BUDGETS = { within: 1_000_000_000_000, refused: 10 };
const TITLES = { within: 'Within the budget', refused: 'Refused' };
const path = fileURLToPath(new URL('leases-child.mjs', import.meta.url));

/** Script calls that Redis was sent. */
async function callsOf(observer) {
  const stats = await observer.info('commandstats');
  const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}

function start(argument) {
  const child = spawn(...pinned(pins?.load, process.execPath, [path, JSON.stringify(argument)]), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`${argument.name} ended with ${code}`);
  });
  gone.catch(() => undefined);
  return {
    heard: async () => (await Promise.race([once(child, 'message'), gone]))[0],
    tell: (seconds) => child.send(seconds),
    ended: gone.catch(() => undefined),
  };
}

/** All processes at once, on a fresh server. */
async function together(name, limit, { seconds, warmSeconds, together: size }) {
  const server = await startRedis();
  const observer = new Redis({ port: server.port });
  const children = Array.from({ length: PROCESSES }, () =>
    start({ name, port: server.port, limit, together: size }),
  );
  const all = (ask) => Promise.all(children.map(ask));
  try {
    await all((child) => child.heard());
    const run = (forSeconds) =>
      all((child) => {
        const answer = child.heard();
        child.tell(forSeconds);
        return answer;
      });
    await run(warmSeconds);
    const before = await callsOf(observer);
    const told = await run(seconds);
    const calls = (await callsOf(observer)) - before;
    const sum = (field) => told.reduce((total, each) => total + each[field], 0);
    const decisions = sum('decisions');
    return {
      perSecond: sum('perSecond'),
      calls: calls / decisions,
      cpu: sum('cpu') / decisions,
      admitted: sum('admitted') / decisions,
    };
  } finally {
    for (const child of children) child.tell(0);
    await all(({ ended }) => ended);
    observer.disconnect();
    await server.stop();
  }
}

const measured = (samples) => Object.keys(SUBJECTS).filter((name) => samples.has(name));

export const leases = {
  title: 'A hot key that eight processes share',
  rounds: 3,
  minutes: 4,
  settings: { seconds: 2, warmSeconds: 1, together: 64 },
  quick: { seconds: 0.5, warmSeconds: 0.3 },
  async measure(options) {
    const { settings, chosen, tell } = options;
    const samples = new Samples();
    for (const round of roundsWithin(options)) {
      for (const name of Object.keys(SUBJECTS).filter(chosen)) {
        const sample = await undisturbed(samples, options, async () => {
          const both = {};
          for (const [kind, limit] of Object.entries(BUDGETS)) {
            const numbers = await together(name, limit, settings);
            for (const [metric, value] of Object.entries(numbers))
              both[`${kind} ${metric}`] = value;
          }
          return both;
        });
        if (sample !== undefined) samples.add(round, name, sample);
        tell(name, round, sample);
      }
    }
    return samples;
  },
  report(samples, { seconds, warmSeconds, together: size }) {
    const names = measured(samples);
    const tables = Object.entries(TITLES).map(([kind, title]) => {
      const of = (metric) => `${kind} ${metric}`;
      const rows = names.map((name) => [
        name,
        cell(samples.of(name, of('perSecond'))),
        cell(samples.ratio(OURS.leases, name, of('perSecond'))),
        cell(samples.of(name, of('calls')), (value) => value.toFixed(5)),
        cell(samples.of(name, of('cpu'))),
      ]);
      const head = ['', 'Decisions per second', 'Leases × this', 'Calls per decision', 'CPU µs'];
      return `${title}:\n\n${table(head, rows)}`;
    });
    return [
      `${PROCESSES} processes, each ${size} decisions at once in every turn of its event loop, for ${seconds} s after ${warmSeconds} s that do not count. CPU time is that of the processes, per decision.`,
      ...tables,
    ].join('\n\n');
  },
  panels(samples) {
    const bars = (metric) =>
      measured(samples).map((name) => ({ name, numbers: samples.of(name, metric) }));
    return Object.entries(TITLES).map(([kind, title]) => ({
      title: `${title}, decisions per second`,
      bars: bars(`${kind} perSecond`),
    }));
  },
};
