// node bench/replay.mjs [lines]: how fast `tollgate replay` reads. Build first. Writes its logs to a folder of its own, and removes it.
import { spawnSync } from 'node:child_process';
import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const lines = Number(process.argv[2] ?? 1_000_000);
if (!Number.isInteger(lines) || lines < 1)
  throw new TypeError('lines must be a whole number of 1 or more.');
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

async function writeLog(path, format) {
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
const CASES = [
  ['combined', 'one', ''],
  ['combined', 'three', ''],
  ['combined', 'one', '--compare'],
  ['json', 'one', ''],
];

const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
try {
  for (const format of Object.keys(FORMATS)) await writeLog(join(folder, format), format);
  for (const [name, limits] of Object.entries(LIMITS)) {
    writeFileSync(join(folder, `${name}.json`), JSON.stringify({ limits }));
  }
  console.log(
    `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node.js ${process.version}, ${lines} lines`,
  );
  for (const [format, limits, more] of CASES) {
    const log = join(folder, format);
    const args = [
      CLI,
      'replay',
      log,
      '--limits',
      join(folder, `${limits}.json`),
      '--json',
      ...(more === '' ? [] : [more]),
    ];
    const started = performance.now();
    // What /usr/bin/time would say, without it: a child's own usage, told as it ends.
    const probe = `process.on('exit', () => { const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage(); process.stderr.write(JSON.stringify({ cpu: (userCPUTime + systemCPUTime) / 1e6, rss: maxRSS / 1024 })); });`;
    const { status, stderr, error } = spawnSync(
      process.execPath,
      ['--import', `data:text/javascript,${encodeURIComponent(probe)}`, ...args],
      { encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    if (status !== 0) throw error ?? new Error(stderr);
    const seconds = (performance.now() - started) / 1_000;
    const { cpu, rss } = JSON.parse(stderr);
    const size = (statSync(log).size / 2 ** 20).toFixed(0);
    console.log(
      `${`${format}, ${limits} limit(s) ${more}`.padEnd(36)} ${size} MiB: ${seconds.toFixed(2)} s, CPU ${cpu.toFixed(2)} s, at most ${rss.toFixed(0)} MiB of memory`,
    );
  }
} finally {
  rmSync(folder, { recursive: true });
}
