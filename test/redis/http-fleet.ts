import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MEMBER = fileURLToPath(new URL('http-member.mjs', import.meta.url));

/** A server in a process of its own. */
export interface Member {
  readonly url: string;
  /** Ends the process as an accident would. */
  readonly kill: () => Promise<void>;
}

/** Servers of both frameworks in turn, each in a process of its own, that share one Redis. They run the built packages. */
export class HttpFleet {
  readonly members: readonly Member[];
  private readonly children: readonly ChildProcess[];

  private constructor(children: readonly ChildProcess[], members: readonly Member[]) {
    this.children = children;
    this.members = members;
  }

  static async start(size: number, redisPort: number): Promise<HttpFleet> {
    const { NODE_OPTIONS: _, ...env } = process.env;
    const children = Array.from({ length: size }, (__, index) =>
      fork(MEMBER, [index % 2 === 0 ? 'fastify' : 'express', `${redisPort}`], {
        env,
        execArgv: [],
      }),
    );
    const members = children.map(async (child): Promise<Member> => {
      const [port] = (await once(child, 'message')) as [number];
      const kill = async (): Promise<void> => {
        child.kill('SIGKILL');
        await once(child, 'exit');
      };
      return { url: `http://127.0.0.1:${port}`, kill };
    });
    return new HttpFleet(children, await Promise.all(members));
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exit = once(child, 'exit');
        child.disconnect();
        await exit;
      }),
    );
  }
}
