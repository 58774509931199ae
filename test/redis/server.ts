import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BINARIES = ['redis-server', 'valkey-server'];

function isThere(binary: string): boolean {
  return spawnSync(binary, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** The server to run: found on the PATH, or installed with apt where that may be done. */
function binary(): string {
  const found = BINARIES.find(isThere);
  if (found !== undefined) return found;
  if (process.getuid?.() === 0 && isThere('apt-get')) {
    for (const args of [
      ['update', '-qq'],
      ['install', '-y', '-qq', '--no-install-recommends', 'redis-server'],
    ]) {
      spawnSync('apt-get', args, { stdio: 'ignore', timeout: 120_000 });
    }
  }
  const installed = BINARIES.find(isThere);
  if (installed !== undefined) return installed;
  throw new Error(
    'These tests need a Redis server. Install one that is called redis-server or valkey-server, such as with: apt-get install redis-server',
  );
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('there is no free port');
  return address.port;
}

/** A Redis server of a test's own, on a free port, with a folder of its own. */
export class RedisServer {
  readonly port: number;
  private readonly child: ChildProcess;
  private readonly folder: string;

  private constructor(port: number, child: ChildProcess, folder: string) {
    this.port = port;
    this.child = child;
    this.folder = folder;
  }

  static async start(): Promise<RedisServer> {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-redis-'));
    const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
    const child = spawn(binary(), settings, { stdio: ['ignore', 'pipe', 'inherit'] });
    const kill = (): void => void child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    for await (const line of child.stdout) {
      if (String(line).includes('Ready to accept connections')) break;
    }
    return new RedisServer(port, child, folder);
  }

  async stop(): Promise<void> {
    this.child.kill('SIGTERM');
    if (this.child.exitCode === null) await once(this.child, 'exit');
    rmSync(this.folder, { recursive: true, force: true });
  }
}
