// Requests per second and CPU time per request, of Fastify and Express with and without limits.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { BARE, BARE_429, SUBJECTS } from './http-subjects.mjs';
import { CONNECTIONS, load } from './load.mjs';
import { pinned, pins, undisturbed } from './machine.mjs';
import { cell, roundsWithin, Samples, table } from './samples.mjs';

/** Load that does not count: until the code is compiled well, which takes requests rather than time. */
const WARM_REQUESTS = 20_000;

async function start(framework, kind, name) {
  const path = fileURLToPath(new URL('http-server.mjs', import.meta.url));
  const [command, args] = pinned(pins?.server, process.execPath, [path, framework, kind, name]);
  const server = spawn(command, args, {
    // What is logged of refusals is nobody's news here, but is written.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const [message] = await Promise.race([
    once(server, 'message'),
    once(server, 'exit').then(([code]) => {
      throw new Error(`${framework} ${name} ended with ${code}`);
    }),
  ]);
  return { server, port: message.port };
}

async function cpuMicroseconds(server) {
  server.send('cpu');
  const [message] = await once(server, 'message');
  return message.cpuMicroseconds;
}

async function warm(port, mostSeconds) {
  let answered = 0;
  for (let second = 0; second < mostSeconds && answered < WARM_REQUESTS; second++) {
    answered += (await load(port, 1)).answers;
  }
}

/** A fresh server, some load that does not count, and some that does. */
async function slot(framework, kind, name, { seconds, warmSeconds }) {
  const { server, port } = await start(framework, kind, name);
  try {
    await warm(port, warmSeconds);
    const before = await cpuMicroseconds(server);
    const { perSecond, answers, refused } = await load(port, seconds);
    const cpu = (await cpuMicroseconds(server)) - before;
    if (refused !== (kind === 'refused' ? answers : 0)) {
      throw new Error(`${framework} ${name} refused ${refused} of ${answers}`);
    }
    return { perSecond, cpu: cpu / answers };
  } finally {
    const ended = once(server, 'exit');
    server.disconnect();
    await ended;
  }
}

/** The rows of one table: against a server that does nothing but answer, and in CPU time. */
function rows(samples, names, bare) {
  return names.map((name) => [
    name,
    cell(samples.of(name, 'perSecond')),
    cell(samples.ratio(name, bare, 'perSecond')),
    cell(samples.of(name, 'cpu')),
    name === bare ? '' : cell(samples.above(name, bare, 'cpu')),
  ]);
}

async function measure(framework, options) {
  const { settings, chosen, tell } = options;
  const samples = new Samples();
  for (const round of roundsWithin(options)) {
    for (const [kind, subjects] of Object.entries(SUBJECTS[framework])) {
      for (const name of Object.keys(subjects)) {
        if (!name.startsWith(BARE) && !chosen(name)) continue;
        const sample = await undisturbed(samples, options, () =>
          slot(framework, kind, name, settings),
        );
        if (sample !== undefined) samples.add(round, name, sample);
        tell(name, round, sample);
      }
    }
  }
  return samples;
}

const BARES = { served: BARE, refused: BARE_429 };

function suite(framework, title, minutes) {
  const measured = (samples, kind) =>
    Object.keys(SUBJECTS[framework][kind]).filter((name) => samples.has(name));
  return {
    title,
    rounds: 5,
    minutes,
    settings: { seconds: 2, warmSeconds: 3 },
    quick: { seconds: 1, warmSeconds: 1 },
    measure: (options) => measure(framework, options),
    report(samples, { seconds, warmSeconds }) {
      const tables = Object.entries(BARES).map(([kind, bare]) =>
        table(
          [kind, 'Requests per second', '× bare', 'CPU µs per request', 'µs above bare'],
          rows(samples, measured(samples, kind), bare),
        ),
      );
      return [
        `${CONNECTIONS} connections, ${seconds} s after ${WARM_REQUESTS.toLocaleString('en-US')} requests (or ${warmSeconds} s) that do not count, a fresh server each time.`,
        ...tables,
      ].join('\n\n');
    },
    panels(samples) {
      return Object.keys(BARES).map((kind) => ({
        title: `${kind === 'served' ? 'Served' : 'Refused'}, CPU µs per request`,
        bars: measured(samples, kind).map((name) => ({ name, numbers: samples.of(name, 'cpu') })),
      }));
    },
  };
}

export const fastify = suite('fastify', 'Fastify', 5);
export const express = suite('express', 'Express', 5);
