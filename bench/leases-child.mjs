// One of the processes that share a hot key: it decides as often as it can when told to. Started by leases.mjs.
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { SUBJECTS } from './leases-subjects.mjs';

const { name, port, limit, together } = JSON.parse(process.argv[2]);

const redis = new Redis({ port });
const subject = SUBJECTS[name](redis, limit);
const check = () => subject.check();

/** Decides for a while, so many at once in each turn of the event loop, as a server does. */
async function run(seconds) {
  let decisions = 0;
  let admitted = 0;
  const cpu = process.cpuUsage();
  const from = performance.now();
  while (performance.now() - from < seconds * 1_000) {
    const answers = await Promise.all(Array.from({ length: together }, check));
    decisions += together;
    for (const allowed of answers) if (allowed) admitted++;
    await turn();
  }
  const { user, system } = process.cpuUsage(cpu);
  const ms = performance.now() - from;
  return { decisions, admitted, perSecond: (decisions / ms) * 1_000, cpu: user + system };
}

await check();
process.send('ready');
for (;;) {
  const [seconds] = await once(process, 'message');
  if (seconds === 0) break;
  process.send(await run(seconds));
}
await subject.close();
process.disconnect();
process.exit();
