import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A proxy on loopback that can cut a connection once Redis has carried a request out, before its answer is seen. */
export class CuttingProxy {
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  private armed = false;

  private constructor(target: number) {
    this.server = createServer((near) => {
      const far = connect(target, '127.0.0.1');
      let cut = false;
      for (const socket of [near, far]) {
        this.sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          this.sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.on('data', (request: Buffer) => {
        if (this.armed && /eval/i.test(request.toString('latin1'))) {
          this.armed = false;
          cut = true;
        }
        far.write(request);
      });
      far.on('data', (answer: Buffer) => {
        if (cut) near.destroy();
        else near.write(answer);
      });
    });
  }

  static async start(target: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(target);
    await once(proxy.server.listen(0, '127.0.0.1'), 'listening');
    return proxy;
  }

  get port(): number {
    const address = this.server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
    return address.port;
  }

  /** Cuts the connection of the next script call, once it has been answered. */
  cutNext(): void {
    this.armed = true;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }
}
