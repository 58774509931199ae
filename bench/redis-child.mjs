// One subject in a process of its own, against a Redis that nobody else uses: decisions per second, their times, what
// they cost Redis and this process, and bytes per key. Started by redis.mjs.
import { Redis } from 'ioredis';
import { address } from './memory-subjects.mjs';
import { SUBJECTS } from './redis-subjects.mjs';

const { name, port, loads, seconds, warmSeconds, keys } = JSON.parse(process.argv[2]);

/** Distinct keys are met again after so many. */
const MANY = 10_000;
const MOST_TIMES = 1_000_000;
/** Decisions under way at once while keys are made. */
const FILLING = 64;
/** Commands that look at Redis, and are no decision's. */
const OBSERVING = new Set(['info', 'config|resetstat', 'flushall', 'hello', 'client|setinfo']);

const redis = new Redis({ port });
const observer = new Redis({ port });
const { check, decided } = await SUBJECTS[name](redis);
const familiar = Array.from({ length: MANY }, (_, index) => address('10', index));
const KEYS = { hot: () => familiar[7], distinct: (index) => familiar[index % MANY] };
const times = new Float64Array(MOST_TIMES);

function must(answer) {
  if (!decided(answer)) throw new Error(`${name} decided wrongly: ${JSON.stringify(answer)}`);
}

/** Keeps so many decisions under way for a while; their times are in `times`. */
async function run(keyOf, inFlight, forSeconds) {
  let decisions = 0;
  const from = performance.now();
  const until = from + forSeconds * 1_000;
  const worker = async () => {
    for (let sent = from; sent < until;) {
      const index = decisions++;
      const answer = await check(keyOf(index), index);
      const now = performance.now();
      if (index < MOST_TIMES) times[index] = now - sent;
      must(answer);
      sent = now;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return { decisions, ms: performance.now() - from };
}

/** Numbers of a section of INFO. */
async function info(section) {
  const lines = (await observer.info(section)).split('\r\n').filter((line) => line.includes(':'));
  return Object.fromEntries(lines.map((line) => line.split(':')));
}

async function cpuMicroseconds() {
  const { used_cpu_user, used_cpu_sys } = await info('cpu');
  return (Number(used_cpu_user) + Number(used_cpu_sys)) * 1e6;
}

/** Commands since the last reset: those that were sent, and all, with those that scripts called. */
async function commands() {
  const calls = Object.entries(await info('commandstats'))
    .map(([field, text]) => [field.slice('cmdstat_'.length), Number(/^calls=(\d+)/.exec(text)[1])])
    .filter(([command]) => !OBSERVING.has(command));
  const sum = (some) => some.reduce((total, [, count]) => total + count, 0);
  const scripts = calls.filter(([command]) => command === 'evalsha' || command === 'eval');
  return { sent: sum(scripts.length > 0 ? scripts : calls), all: sum(calls) };
}

function quantile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

async function measure(kind, inFlight) {
  await run(KEYS[kind], inFlight, warmSeconds);
  await observer.config('RESETSTAT');
  const redisBefore = await cpuMicroseconds();
  const ownBefore = process.cpuUsage();
  const { decisions, ms } = await run(KEYS[kind], inFlight, seconds);
  const { user, system } = process.cpuUsage(ownBefore);
  const redisCpu = (await cpuMicroseconds()) - redisBefore;
  const { sent, all } = await commands();
  const sorted = times.slice(0, Math.min(decisions, MOST_TIMES)).sort();
  return {
    perSecond: (decisions / ms) * 1_000,
    p50: quantile(sorted, 0.5) * 1_000,
    p99: quantile(sorted, 0.99) * 1_000,
    redisCpu: redisCpu / decisions,
    ownCpu: (user + system) / decisions,
    commands: all / decisions,
    sent: sent / decisions,
  };
}

/** By how much a key makes Redis grow, over many that are each met once. */
async function bytesPerKey() {
  await observer.flushall('SYNC');
  const before = Number((await info('memory')).used_memory);
  let next = 0;
  const worker = async () => {
    while (next < keys) {
      const index = next++;
      must(await check(address('172', index), index));
    }
  };
  await Promise.all(Array.from({ length: FILLING }, worker));
  return (Number((await info('memory')).used_memory) - before) / keys;
}

const sample = {};
for (const { kind, inFlight } of loads) {
  for (const [metric, value] of Object.entries(await measure(kind, inFlight))) {
    sample[`${kind} ${inFlight} ${metric}`] = value;
  }
}
sample.bytesPerKey = await bytesPerKey();
process.send(sample);
// Connections would keep the process.
process.disconnect();
process.exit();
