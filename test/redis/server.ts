import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BINARIES = ['redis-server', 'valkey-server'];

function isThere(binary: string): boolean {
  return spawnSync(binary, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** The server to run: the one that TOLLGATE_REDIS_SERVER names, found on the PATH, or installed with apt. */
function binary(): string {
  const named = process.env['TOLLGATE_REDIS_SERVER'];
  if (named !== undefined) {
    if (isThere(named)) return named;
    throw new Error(`TOLLGATE_REDIS_SERVER is ${named}, which does not run.`);
  }
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

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'tollgate-redis-'));
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

  /** @param more settings, as arguments of the server. */
  static async start(more: readonly string[] = [], onPort?: number): Promise<RedisServer> {
    const port = onPort ?? (await freePort());
    const folder = newFolder();
    const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
    return RedisServer.launch(port, folder, [...settings, ...more], 'Ready to accept connections');
  }

  /** Starts a Sentinel that watches a master under a name, and by itself decides that it is down. */
  static async startSentinel(name: string, master: RedisServer): Promise<RedisServer> {
    const port = await freePort();
    const folder = newFolder();
    // A Sentinel keeps what it learns in its settings' file, and will not start without one.
    const file = join(folder, 'sentinel.conf');
    const settings = [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor ${name} 127.0.0.1 ${master.port} 1`,
      `sentinel down-after-milliseconds ${name} 1000`,
      `sentinel failover-timeout ${name} 5000`,
    ];
    writeFileSync(file, settings.join('\n'));
    return RedisServer.launch(port, folder, [file, '--sentinel'], '+monitor master');
  }

  private static async launch(
    port: number,
    folder: string,
    settings: readonly string[],
    readyLine: string,
  ): Promise<RedisServer> {
    const child = spawn(binary(), settings, { stdio: ['ignore', 'pipe', 'inherit'] });
    const kill = (): void => void child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    for await (const line of child.stdout) {
      if (String(line).includes(readyLine)) break;
    }
    return new RedisServer(port, child, folder);
  }

  /** Stops the process where it is, so that it holds its connections and answers nothing. */
  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  /** @param signal SIGKILL for a server that is to die as in an accident. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const { exitCode, signalCode } = this.child;
    if (exitCode === null && signalCode === null) {
      this.child.kill(signal);
      // One that is paused hears nothing else.
      this.resume();
      await once(this.child, 'exit');
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
