// Runs modules one after another and tells its parent what each printed and where it listens. They run as they are,
// except that whoever asks for port 3000 gets a free one.
import { Server } from 'node:net';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';

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

for (const file of process.argv.slice(2)) {
  run = { lines: [], warnings: [], ports: [], error: undefined };
  try {
    await import(pathToFileURL(file).href);
    // A server that nobody awaited listens at the end of this turn.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  } catch (error) {
    run.error = String(error?.stack ?? error);
  }
  process.send(run);
}
// What servers print later, as they answer.
run = { ...run, lines: { push: (line) => process.send(line) } };
