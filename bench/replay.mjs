// How fast `tollgate replay` reads access logs. It writes its logs to a folder of its own, and removes it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { undisturbed } from './machine.mjs';
import { cell, roundsWithin, Samples, table } from './samples.mjs';

const CLI = fileURLToPath(new URL('../packages/cli/dist/cli.mjs', import.meta.url));
const CLIENTS = 50_000;
const PATHS = ['/', '/api/users', '/api/users/17', '/search?q=tea', '/login'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** The same numbers in every run. */
function randomNumbers() {
  let seed = 7;
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

const two = (number) => String(number).padStart(2, '0');
const FORMATS = {
  combined(date, address, path) {
    const day = `${two(date.getUTCDate())}/${MONTHS[date.getUTCMonth()]}/${date.getUTCFullYear()}`;
    const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
    return `${address} - - [${day}:${time} +0000] "GET ${path} HTTP/1.1" 200 5120 "https://example.com/" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"`;
  },
  json(date, address, path) {
    const req = { method: 'GET', url: path, host: 'example.com', remoteAddress: address };
    const time = date.getTime();
    return JSON.stringify({ level: 30, time, pid: 1, hostname: 'h', reqId: 'req-1', req });
  },
};

async function writeLog(path, format, lines) {
  const random = randomNumbers();
  const stream = createWriteStream(path);
  let time = Date.UTC(2026, 9, 10);
  let text = '';
  for (let i = 0; i < lines; i++) {
    time += random() * 20;
    // Some clients come far more often than others.
    const client = Math.floor(random() ** 4 * CLIENTS);
    const address = `10.0.${client >> 8}.${client & 255}`;
    const requested = PATHS[Math.floor(random() * PATHS.length)];
    text += `${FORMATS[format](new Date(time), address, requested)}\n`;
    if (text.length > 1 << 20) {
      if (!stream.write(text)) await once(stream, 'drain');
      text = '';
    }
  }
  stream.end(text);
  await once(stream, 'finish');
}

const address = {
  name: 'address',
  policy: { algorithm: 'token-bucket', capacity: 20, rate: 10, per: '1m' },
};
const LIMITS = {
  one: [address],
  three: [
    address,
    {
      name: 'search',
      by: ['ip', 'route'],
      match: { path: '/search' },
      policy: { algorithm: 'sliding-window', limit: 10, window: '1m' },
    },
    {
      name: 'all',
      by: 'everyone',
      policy: { algorithm: 'fixed-window', limit: 5_000, window: '1m' },
    },
  ],
};

const CASES = {
  'combined log, one limit': { format: 'combined', limits: 'one', options: [] },
  'combined log, three limits': { format: 'combined', limits: 'three', options: [] },
  'combined log, one limit, --compare': {
    format: 'combined',
    limits: 'one',
    options: ['--compare'],
  },
  'JSON log, one limit': { format: 'json', limits: 'one', options: [] },
};

/** What /usr/bin/time would say, without it: a child's own usage, told as it ends. */
const PROBE = `process.on('exit', () => { const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage(); process.send({ cpu: (userCPUTime + systemCPUTime) / 1e6, memory: maxRSS / 1024 }); });`;

/** Replays one log in a process of its own. */
async function replayed({ format, limits, options }, folder, lines) {
  const log = join(folder, format);
  const probe = ['--import', `data:text/javascript,${encodeURIComponent(PROBE)}`];
  const args = [
    CLI,
    'replay',
    log,
    '--limits',
    join(folder, `${limits}.json`),
    '--json',
    ...options,
  ];
  const started = performance.now();
  const child = spawn(process.execPath, [...probe, ...args], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  let usage;
  child.once('message', (message) => {
    usage = message;
  });
  const [code] = await once(child, 'exit');
  if (code !== 0 || usage === undefined) throw new Error(`tollgate replay ended with ${code}`);
  const seconds = (performance.now() - started) / 1_000;
  return {
    perSecond: lines / seconds,
    mebibytes: statSync(log).size / 2 ** 20 / seconds,
    ...usage,
  };
}

const COLUMNS = {
  perSecond: 'Lines per second',
  mebibytes: 'MiB per second',
  cpu: 'CPU s',
  memory: 'Most memory, MiB',
};

function measured(samples) {
  return Object.keys(CASES).filter((name) => samples.has(name));
}

export const replay = {
  title: 'Reading access logs',
  rounds: 3,
  minutes: 4,
  settings: { lines: 1_000_000 },
  quick: { lines: 20_000 },
  async measure(options) {
    const { settings, chosen, tell } = options;
    const samples = new Samples();
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
    try {
      for (const format of Object.keys(FORMATS)) {
        await writeLog(join(folder, format), format, settings.lines);
      }
      for (const [name, limits] of Object.entries(LIMITS)) {
        writeFileSync(join(folder, `${name}.json`), JSON.stringify({ limits }));
      }
      for (const round of roundsWithin(options)) {
        for (const name of Object.keys(CASES).filter(chosen)) {
          const sample = await undisturbed(samples, options, () =>
            replayed(CASES[name], folder, settings.lines),
          );
          if (sample !== undefined) samples.add(round, name, sample);
          tell(name, round, sample);
        }
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    return samples;
  },
  report(samples, { lines }) {
    const rows = measured(samples).map((name) => [
      name,
      ...Object.keys(COLUMNS).map((metric) => cell(samples.of(name, metric))),
    ]);
    return `${lines.toLocaleString('en-US')} lines of 50,000 clients, in a process each.\n\n${table(['tollgate replay', ...Object.values(COLUMNS)], rows)}`;
  },
  panels(samples) {
    return [
      {
        title: 'Lines per second',
        bars: measured(samples).map((name) => ({ name, numbers: samples.of(name, 'perSecond') })),
      },
    ];
  },
};
