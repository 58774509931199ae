import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and Redis on loopback, and does to their bytes what networks do. */
export class FaultProxy {
  /** Added to every reply. */
  delayMs = 0;
  /** Cuts connections in place of the next replies: what was asked has been carried out, and nobody hears of it. */
  cuts = 0;
  /** What to answer in place of Redis; whatever was asked does not reach it. */
  instead: string | undefined;
  /** Where new connections go. */
  target: number;
  /** Bytes from clients so far. */
  received = 0;
  private readonly server: Server;
  private readonly dead = new WeakSet<Socket>();
  private readonly sockets = new Set<Socket>();
  private isHolding = false;

  private constructor(target: number) {
    this.target = target;
    this.server = createServer((socket) => this.join(socket));
  }

  static async start(target: number): Promise<FaultProxy> {
    const proxy = new FaultProxy(target);
    proxy.server.listen(0, '127.0.0.1');
    await once(proxy.server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Swallows all bytes from now on, as a packet filter does that forgot its connections. */
  hold(): void {
    this.isHolding = true;
    for (const socket of this.sockets) this.dead.add(socket);
  }

  /** Lets new connections through. Those that were held stay dead, and are not told. */
  letGo(): void {
    this.isHolding = false;
  }

  async stop(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private join(client: Socket): void {
    const redis = connect(this.target, '127.0.0.1');
    for (const [from, to] of [
      [client, redis],
      [redis, client],
    ] as const) {
      this.sockets.add(from);
      if (this.isHolding) this.dead.add(from);
      // Ends are passed on by closing.
      from.on('error', () => undefined);
      from.on('close', () => {
        this.sockets.delete(from);
        to.destroy();
      });
    }
    client.on('data', (bytes) => {
      this.received += bytes.length;
      if (this.dead.has(client)) return;
      if (this.instead === undefined) redis.write(bytes);
      else client.write(this.instead);
    });
    redis.on('data', (bytes) => {
      if (this.dead.has(client)) return;
      if (this.cuts > 0) {
        this.cuts--;
        client.destroy();
      } else if (this.delayMs === 0) client.write(bytes);
      else setTimeout(() => client.write(bytes), this.delayMs);
    });
  }
}
