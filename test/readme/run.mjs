// Runs modules one after another and tells its parent what each printed and where it listens. They run as they are,
// except that whoever asks for port 3000 gets a free one. Those that use Redis find it empty, and are run again when it
// was late, as it may be on a busy machine.
import { Server } from 'node:net';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';
import { Redis } from 'ioredis';

const MOST_RUNS = 5;

let run = { lines: [], warnings: [], ports: [], error: undefined };

const listen = Reflect.get(Server.prototype, 'listen');
Server.prototype.listen = function (...args) {
  const { ports } = run;
  this.once('listening', () => ports.push(this.address().port));
  const [first, ...rest] = args;
  if (first === 3000) return listen.call(this, 0, ...rest);
  if (first?.port === 3000) return listen.call(this, { ...first, port: 0 }, ...rest);
  return listen.apply(this, args);
};
console.log = (...values) => run.lines.push(format(...values));
console.warn = (...values) => run.warnings.push(format(...values));
console.error = console.warn;

const redis = new Redis(process.env.REDIS_URL);
redis.on('error', (error) => run.warnings.push(String(error)));

async function runOnce(file, time) {
  run = { lines: [], warnings: [], ports: [], error: undefined };
  await redis.flushall();
  try {
    await import(`${pathToFileURL(file).href}?${time}`);
    // A server that nobody awaited listens at the end of this turn.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  } catch (error) {
    run.error = String(error?.stack ?? error);
  }
}

for (const file of process.argv.slice(2)) {
  let time = 1;
  const wasLate = () => run.warnings.some((line) => line.includes('TOLLGATE_STORE'));
  do await runOnce(file, time);
  while (wasLate() && time++ < MOST_RUNS);
  process.send(run);
}
// What servers print later, as they answer.
run = { ...run, lines: { push: (line) => process.send(line) } };
