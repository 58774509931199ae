// A Redis server of a measurement's own: on a free port, with a folder of its own, and nothing written to disk.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pinned, pins, redisVersion } from './machine.mjs';

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Starts a server; `stop` ends it. It ends with this process, too. */
export async function startRedis() {
  if (redisVersion === undefined) {
    throw new Error(
      'There is no redis-server on the PATH. Install one: apt-get install redis-server',
    );
  }
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
  const server = spawn(...pinned(pins?.server, 'redis-server', settings), {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const kill = () => server.kill('SIGKILL');
  process.once('exit', kill);
  for await (const line of server.stdout) {
    if (String(line).includes('Ready to accept connections')) break;
  }
  return {
    port,
    async stop() {
      process.off('exit', kill);
      if (server.exitCode === null) {
        server.kill();
        await once(server, 'exit');
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
