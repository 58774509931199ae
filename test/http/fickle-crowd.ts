import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Built, Call, Route } from './app.ts';
import { Endless } from './streams.ts';

/** How many handlers and sockets are at it now, and how many were at most. */
export class Busy {
  now = 0;
  most = 0;

  /** @param over what says that it is over: a response that stands behind others is told nothing when its client leaves. */
  enter(...over: readonly (ServerResponse | Duplex)[]): void {
    if (over.some(({ destroyed }) => destroyed)) return;
    this.now++;
    this.most = Math.max(this.most, this.now);
    let isOver = false;
    const leave = (): void => {
      if (!isOver) this.now--;
      isOver = true;
    };
    for (const each of over) each.once('close', leave);
  }
}

/** Routes that end in every way that a request can, by what they do. */
export function fickleRoutes(busy: Busy): Route[] {
  const route = (path: string, handler: NonNullable<Route['handler']>): Route => ({
    path,
    handler: (call) => {
      busy.enter(call.response, call.raw.socket);
      return handler(call);
    },
  });
  const own = (path: string, act: (call: Call) => void): Route => ({
    ...route(path, (call) => {
      act(call);
      return undefined;
    }),
    takesOver: true,
  });
  return [
    route('/quick', () => ({ body: 'quick' })),
    route('/empty', () => ({ status: 204 })),
    route('/unchanged', () => ({ status: 304 })),
    route('/fails', () => ({ status: 500 })),
    route('/throws', () => {
      throw new Error('broken');
    }),
    route('/slow', async () => {
      await sleep(5);
      return { body: 'slow' };
    }),
    route('/stream', () => ({ body: new Endless() })),
    route('/breaks', () => {
      const body = new Endless();
      setImmediate(() => body.destroy(new Error('broken')));
      return { body };
    }),
    own('/destroys', ({ response }) => void response.destroy()),
    own('/begins-and-destroys', ({ response }) => {
      response.write('begun');
      setImmediate(() => response.destroy());
    }),
    own('/events', ({ response }) => {
      response.setHeader('content-type', 'text/event-stream');
      response.write('data: 1\n\n');
    }),
    { ...route('/body', () => ({ body: 'read' })), method: 'POST' },
  ];
}

/** Answers upgrades by what a gate says, and keeps the slot of one that is admitted until its socket closes. */
export function acceptUpgrades(http: Server, gate: Built['gate'], busy: Busy): void {
  const answer = async (request: IncomingMessage, socket: Duplex): Promise<void> => {
    // Heard from the start: who leaves while the gate is asked says so once. Sockets of a server stay half open till then.
    socket.on('error', () => socket.destroy());
    socket.on('end', () => socket.end());
    const decision = await gate.consume(request);
    if (!decision.allowed) {
      socket.end('HTTP/1.1 429 Refused\r\n\r\n', () => socket.destroy());
      return;
    }
    if (socket.destroyed) return void decision.release();
    socket.on('close', () => void decision.release());
    busy.enter(socket);
    socket.resume();
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n',
    );
  };
  http.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    answer(request, socket).catch(() => socket.destroy());
  });
}

const head = (line: string, ...headers: string[]): string =>
  `${line} HTTP/1.1\r\nHost: x\r\n${headers.join('')}\r\n`;
const get = (path: string, ...headers: string[]): string => head(`GET ${path}`, ...headers);
const CLOSE = 'Connection: close\r\n';
const UPGRADE = 'Connection: Upgrade\r\nUpgrade: chat\r\n';

/** What a client does with a connection that is open, but for leaving. */
type Deed = (socket: Socket, pause: () => Promise<void>) => Promise<void>;

const say =
  (text: string): Deed =>
  async (socket, pause) => {
    socket.write(text);
    await pause();
  };

/** Asks and reads all of the answer. */
const ask =
  (line: string): Deed =>
  async (socket) => {
    socket.write(head(line, CLOSE));
    await ended(socket);
  };

/** Asks and reads until the first bytes of an answer are there. */
const taste =
  (text: string): Deed =>
  async (socket, pause) => {
    socket.write(text);
    await Promise.race([once(socket, 'data'), ended(socket)]);
    await pause();
  };

const DEEDS: readonly Deed[] = [
  ...['/quick', '/empty', '/unchanged', '/fails', '/throws', '/slow', '/nowhere'].map((path) =>
    ask(`GET ${path}`),
  ),
  ...['/breaks', '/destroys', '/begins-and-destroys'].map((path) => ask(`GET ${path}`)),
  ask('HEAD /quick'),
  // In the midst of the head, and of the body.
  say('GET /quick HTTP/1.1\r\nHos'),
  say(
    'POST /body HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 900\r\n\r\nabc',
  ),
  // Before the answer, at whatever moment, and with another request behind it.
  say(get('/quick')),
  say(get('/slow')),
  say(get('/slow') + get('/quick') + get('/stream')),
  // In the midst of the answer.
  ...['/stream', '/events'].map((path) => taste(get(path))),
  say(get('/socket', UPGRADE)),
  taste(get('/socket', UPGRADE)),
];

/** Where a connection ends, however it does. */
async function ended(socket: Socket): Promise<void> {
  if (!socket.destroyed) await once(socket, 'close');
}

interface Crowd {
  readonly port: number;
  readonly requests: number;
  /** How many do something at once. */
  readonly together: number;
  readonly seed: number;
}

/** Clients that come, ask for anything, and leave whenever they like: closing, or breaking off. */
export async function comeAndGo({ port, requests, together, seed }: Crowd): Promise<void> {
  let state = seed;
  const upTo = (most: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * (most + 1));
  };
  const pause = async (): Promise<void> => {
    const ms = upTo(6);
    // Mostly within the turns that the answer takes.
    if (ms < 3) for (let turn = 0; turn < ms; turn++) await new Promise(setImmediate);
    else await sleep(ms - 2);
  };
  let left = requests;
  const client = async (): Promise<void> => {
    while (left-- > 0) {
      const socket = connect({ port, host: '127.0.0.1' });
      socket.on('error', () => undefined);
      socket.resume();
      await Promise.race([once(socket, 'connect'), ended(socket)]);
      await DEEDS[upTo(DEEDS.length - 1)]?.(socket, pause);
      if (upTo(3) === 0) socket.resetAndDestroy();
      else socket.destroy();
      await ended(socket);
    }
  };
  await Promise.all(Array.from({ length: together }, client));
}
