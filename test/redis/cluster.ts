import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { SLOTS } from '../../packages/core/src/redis/slots.ts';
import { RedisServer } from './server.ts';

/** A replica is promoted when its master was silent for about this long. */
const NODE_TIMEOUT_MS = 1_000;
const SETTINGS: readonly string[] = [
  '--cluster-enabled',
  'yes',
  '--cluster-node-timeout',
  `${NODE_TIMEOUT_MS}`,
  // A replica gets its copy at once, with no wait for others that may want one too.
  '--repl-diskless-sync-delay',
  '0',
  // A replica counts as one once it has followed something.
  '--repl-ping-replica-period',
  '1',
];
/** The nodes speak to one another at this distance from their ports. */
const BUS = 10_000;
/** Both ports stand below those that systems give to clients. */
const PORTS = { from: 11_000, to: 22_000 };

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  probe.listen(port, '127.0.0.1');
  try {
    await once(probe, 'listening');
  } catch {
    return false;
  }
  probe.close();
  await once(probe, 'close');
  return true;
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.from + Math.floor(Math.random() * (PORTS.to - PORTS.from));
    if ((await isFree(port)) && (await isFree(port + BUS))) return port;
  }
}

/** A node of a cluster, and a client of it alone. */
export class Node {
  readonly server: RedisServer;
  readonly client: Redis;
  id = '';

  constructor(server: RedisServer) {
    this.server = server;
    this.client = new Redis(server.port, '127.0.0.1');
    // A node that was killed on purpose is gone.
    this.client.on('error', () => undefined);
  }

  static async start(): Promise<Node> {
    const node = new Node(await RedisServer.start(SETTINGS, await freePort()));
    node.id = (await node.client.cluster('MYID')) as string;
    return node;
  }

  async info(name: string): Promise<string | undefined> {
    const lines = ((await this.client.cluster('INFO')) as string).split('\r\n');
    return lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1);
  }

  async stop(signal?: 'SIGKILL'): Promise<void> {
    this.client.disconnect();
    await this.server.stop(signal);
  }
}

/** A Redis Cluster of a test's own: masters with an equal share of the slots each. */
export class RedisCluster {
  readonly masters: readonly Node[];
  /** One of each master, in their order; none without replicas. */
  readonly replicas: readonly Node[];

  private constructor(masters: readonly Node[], replicas: readonly Node[]) {
    this.masters = masters;
    this.replicas = replicas;
  }

  static async start({ replicas }: { replicas: boolean }): Promise<RedisCluster> {
    const start = (): Promise<Node>[] => Array.from({ length: 3 }, () => Node.start());
    const cluster = new RedisCluster(
      await Promise.all(start()),
      replicas ? await Promise.all(start()) : [],
    );
    await cluster.form();
    return cluster;
  }

  /** Where clients find the cluster. */
  get addresses(): { host: string; port: number }[] {
    return this.masters.map(({ server }) => ({ host: '127.0.0.1', port: server.port }));
  }

  ownerOf(slot: number): Node {
    return this.masters[Math.floor(slot / this.share)] as Node;
  }

  /** Opens a slot for being moved: keys that are not on its node any more, or not yet, are asked of the other. */
  async openSlot(slot: number, from: Node, to: Node): Promise<void> {
    await to.client.cluster('SETSLOT', slot, 'IMPORTING', from.id);
    await from.client.cluster('SETSLOT', slot, 'MIGRATING', to.id);
  }

  async moveKeys(keys: readonly string[], from: Node, to: Node): Promise<void> {
    await from.client.migrate('127.0.0.1', to.server.port, '', 0, 5_000, 'KEYS', ...keys);
  }

  async closeSlot(slot: number, to: Node): Promise<void> {
    const others = this.masters.filter((node) => node !== to);
    for (const { client } of [to, ...others]) await client.cluster('SETSLOT', slot, 'NODE', to.id);
  }

  async keysIn(slot: number, node: Node): Promise<string[]> {
    return (await node.client.cluster('GETKEYSINSLOT', slot, 1_000)) as string[];
  }

  async stop(): Promise<void> {
    await Promise.all([...this.masters, ...this.replicas].map((node) => node.stop()));
  }

  private get share(): number {
    return Math.ceil(SLOTS / this.masters.length);
  }

  private async form(): Promise<void> {
    const nodes = [...this.masters, ...this.replicas];
    for (const [index, { client }] of this.masters.entries()) {
      const last = Math.min(SLOTS, (index + 1) * this.share) - 1;
      const slots = Array.from(
        { length: last + 1 - index * this.share },
        (_, offset) => index * this.share + offset,
      );
      await client.cluster('ADDSLOTS', ...slots);
      // Without numbers of their own, nodes first have to agree on who is who.
      await client.cluster('SET-CONFIG-EPOCH', index + 1);
    }
    for (const { client } of nodes) {
      for (const { server } of nodes) await client.cluster('MEET', '127.0.0.1', server.port);
    }
    await this.until(
      nodes,
      async (node) => (await node.info('cluster_known_nodes')) === `${nodes.length}`,
    );
    for (const [index, { client }] of this.replicas.entries()) {
      await client.cluster('REPLICATE', (this.masters[index] as Node).id);
    }
    await this.until(nodes, async (node) => (await node.info('cluster_state')) === 'ok');
    await this.until(this.replicas, async ({ client }) =>
      (await client.info('replication')).includes('master_link_status:up'),
    );
    // Clients ask the masters who their replicas are.
    await this.until(this.replicas.length === 0 ? [] : this.masters, async ({ client }) => {
      const slots = (await client.cluster('SLOTS')) as unknown[][];
      return slots.every((range) => range.length === 4);
    });
  }

  private async until(
    nodes: readonly Node[],
    isSo: (node: Node) => Promise<boolean>,
  ): Promise<void> {
    for (const node of nodes) while (!(await isSo(node))) await sleep(20);
  }
}
