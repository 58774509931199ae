import { once } from 'node:events';
import {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as open,
  type RequestOptions,
} from 'node:http';
import { connect, type Socket } from 'node:net';

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Sends one request and reads the answer; redirects are not followed. */
export function ask(url: string, init: RequestInit = {}): Promise<Reply> {
  const reply = fetch(url, { redirect: 'manual', ...init }).then(async (response) => ({
    status: response.status,
    headers: response.headers,
    text: await response.text(),
  }));
  // A test that fails before it looks at the answer has said enough.
  reply.catch(() => undefined);
  return reply;
}

/** The statuses of requests sent one after the other. */
export async function inTurn(url: string, count: number, init?: RequestInit): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < count; i++) statuses.push((await ask(url, init)).status);
  return statuses;
}

/** Requests sent at once. */
export function together(url: string, count: number, init?: RequestInit): Promise<Reply>[] {
  return Array.from({ length: count }, () => ask(url, init));
}

/** How many of each status there are. */
export function tally(statuses: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** A request that the test may break off; its own error is no news. */
export function start(url: string, headers: Record<string, string> = {}): ClientRequest {
  const request = open(url, { headers, agent: false });
  request.on('error', () => undefined);
  request.end();
  return request;
}

export interface RawReply {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Sends a request with node:http, for what fetch cannot say: a Unix socket, or an address to come from. */
export async function askPlainly(options: RequestOptions): Promise<RawReply> {
  const request = open({ host: '127.0.0.1', agent: false, ...options });
  request.end();
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, headers: response.headers, text };
}

/** Writes text to a socket as it is. */
export async function dial(port: number, text: string, host = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

/** Writes text to a socket and reads until the other side ends. */
export async function speak(port: number, text: string): Promise<string> {
  const socket = await dial(port, text);
  let answer = '';
  for await (const chunk of socket) answer += String(chunk);
  return answer;
}

/** Writes text to a socket, reads the first line of the answer, and leaves. */
export async function firstLine(port: number, text: string): Promise<string> {
  const socket = await dial(port, text);
  let answer = '';
  for await (const chunk of socket) {
    answer += String(chunk);
    if (answer.includes('\r\n')) break;
  }
  return answer.split('\r\n', 1)[0] ?? '';
}
