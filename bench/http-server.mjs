// One server in a process of its own, which tells its parent the port and, when asked, its CPU time. Started by
// http.mjs.
import { SUBJECTS } from './http-subjects.mjs';

const [framework, kind, name] = process.argv.slice(2);

const port = await SUBJECTS[framework][kind][name]();
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send({ cpuMicroseconds: user + system });
});
// Without its parent nobody would end it.
process.on('disconnect', () => process.exit());
process.send({ port });
