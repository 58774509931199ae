import { once } from 'node:events';
import { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';
import { FaultProxy } from './fault-proxy.ts';
import { RedisServer } from './server.ts';

/** A Redis server behind a proxy, and what a test does to both. */
export class Site {
  server: RedisServer;
  readonly proxy: FaultProxy;
  private admin: Redis | undefined;

  private constructor(server: RedisServer, proxy: FaultProxy) {
    this.server = server;
    this.proxy = proxy;
  }

  /** Runs until the test is over. */
  static async open(): Promise<Site> {
    const server = await RedisServer.start();
    const site = new Site(server, await FaultProxy.start(server.port));
    onTestFinished(async () => {
      site.admin?.disconnect();
      await site.proxy.stop();
      await site.server.stop('SIGKILL');
    });
    return site;
  }

  /** Asks Redis past the proxy. */
  async ask(...command: [string, ...(string | number)[]]): Promise<unknown> {
    return (await this.connected()).call(...command);
  }

  /** Sends a command whose answer is not waited for. */
  async send(...command: [string, ...(string | number)[]]): Promise<void> {
    (await this.connected()).call(...command).catch(() => undefined);
  }

  async kill(): Promise<void> {
    this.admin?.disconnect();
    this.admin = undefined;
    await this.server.stop('SIGKILL');
  }

  /** Starts Redis anew, empty, on the same port. */
  async restart(): Promise<void> {
    this.server = await RedisServer.start([], this.server.port);
  }

  /** The keys that no time to live is set for. */
  async immortals(): Promise<string[]> {
    const keys = (await this.ask('KEYS', '*')) as string[];
    const left = await Promise.all(
      keys.map(async (key) => [key, (await this.ask('PTTL', key)) as number] as const),
    );
    // -2 is a key that has gone meanwhile.
    return left.filter(([, ms]) => ms === -1).map(([key]) => key);
  }

  private async connected(): Promise<Redis> {
    if (this.admin !== undefined) return this.admin;
    const admin = new Redis(this.server.port, '127.0.0.1');
    admin.on('error', () => undefined);
    await once(admin, 'ready');
    this.admin = admin;
    return admin;
  }
}

/** Something that keeps Redis from answering in time: how it is brought about, and how it ends. */
export interface Fault {
  readonly name: string;
  /** Of what the store says that it failed with last. */
  readonly says: RegExp;
  cause(site: Site): Promise<void>;
  end(site: Site): Promise<void>;
}

const BUSY_SCRIPT = 'while true do end';
/** Where nobody listens. */
const NOWHERE = ['127.0.0.1', '1'] as const;

/** Faults after which there is nobody to talk to. */
export const ABSENCES: readonly Fault[] = [
  {
    name: 'killed, and restarted empty',
    says: /ECONNREFUSED|ECONNRESET|closed|not connected/i,
    cause: (site) => site.kill(),
    end: (site) => site.restart(),
  },
  {
    name: 'stopped',
    says: /no answer|closed|not connected/i,
    cause: async ({ server }) => server.pause(),
    end: async ({ server }) => server.resume(),
  },
  {
    name: 'out of reach on connections that stay open',
    says: /no answer|closed|not connected/i,
    cause: async ({ proxy }) => proxy.hold(),
    end: async ({ proxy }) => proxy.letGo(),
  },
  {
    name: 'at its most clients',
    says: /max number of clients|closed|not connected/i,
    cause: async (site) => {
      await site.ask('CONFIG', 'SET', 'maxclients', '1');
      await site.ask('CLIENT', 'KILL', 'SKIPME', 'yes');
    },
    end: async (site) => void (await site.ask('CONFIG', 'SET', 'maxclients', '1000')),
  },
  {
    name: 'behind another password',
    says: /NOAUTH|closed|not connected/i,
    cause: async (site) => {
      await site.ask('CONFIG', 'SET', 'requirepass', 'secret');
      await site.ask('CLIENT', 'KILL', 'SKIPME', 'yes');
    },
    end: async (site) => void (await site.ask('CONFIG', 'SET', 'requirepass', '')),
  },
];

/** Faults in which Redis is there, and of no use. */
export const SICKNESSES: readonly Fault[] = [
  {
    name: 'a read-only replica',
    says: /READONLY|closed|not connected|writeable/i,
    cause: async (site) => void (await site.ask('REPLICAOF', ...NOWHERE)),
    end: async (site) => void (await site.ask('REPLICAOF', 'NO', 'ONE')),
  },
  {
    name: 'out of memory',
    says: /OOM/,
    cause: async (site) => void (await site.ask('CONFIG', 'SET', 'maxmemory', '1')),
    end: async (site) => void (await site.ask('CONFIG', 'SET', 'maxmemory', '0')),
  },
  {
    name: '200 ms away',
    says: /no answer within 100 ms/,
    cause: async ({ proxy }) => void (proxy.delayMs = 200),
    end: async ({ proxy }) => void (proxy.delayMs = 0),
  },
  {
    name: 'cut off after it carried out what was asked',
    says: /closed|not connected|ECONNRESET/i,
    cause: async ({ proxy }) => void (proxy.cuts = Infinity),
    end: async ({ proxy }) => void (proxy.cuts = 0),
  },
  {
    name: 'busy with a long script',
    says: /no answer|BUSY|closed|not connected/i,
    cause: async (site) => {
      await site.ask('CONFIG', 'SET', 'busy-reply-threshold', '50');
      await site.send('EVAL', BUSY_SCRIPT, 0);
    },
    // It can be killed as soon as it counts as busy.
    end: async ({ server }) => {
      const other = new Redis(server.port, '127.0.0.1', { enableReadyCheck: false });
      try {
        await other.call('SCRIPT', 'KILL');
      } finally {
        other.disconnect();
      }
    },
  },
  {
    name: 'hidden behind something that answers nonsense',
    says: /./,
    cause: async ({ proxy }) => void (proxy.instead = '-ERR this is no Redis\r\n'),
    end: async ({ proxy }) => void (proxy.instead = undefined),
  },
];
