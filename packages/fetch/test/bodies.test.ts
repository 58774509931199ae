import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createLimiter, tokenBucket } from '@tollgate/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createFetch, outcomeOf } from '../src/index.ts';
import { Diary } from './world.ts';

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A server that refuses the first requests and tells what it received. */
async function serve(
  refusals: number,
  status = 429,
): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const text = (await buffer(request)).toString('latin1');
    received.push({ headers: request.headers, text });
    response.statusCode = received.length <= refusals ? status : 200;
    response.end('an answer');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, received };
}

const retry = { baseMs: 2 };

function form(): FormData {
  const data = new FormData();
  data.append('name', 'Ada');
  data.append('file', new File(['contents'], 'notes.txt', { type: 'text/plain' }));
  return data;
}

async function* parts(): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode('hel');
  yield new TextEncoder().encode('lo');
}

const stream = (): ReadableStream =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('hello'));
      controller.close();
    },
  });

const bytes = new TextEncoder().encode('-hello-');

describe('a body that can be sent again', () => {
  it.each([
    ['a string', () => 'hello', 'hello'],
    ['an empty string', () => '', ''],
    ['URLSearchParams', () => new URLSearchParams({ a: '1' }), 'a=1'],
    ['an ArrayBuffer', () => bytes.slice(1, 6).buffer, 'hello'],
    ['a part of an ArrayBuffer', () => bytes.subarray(1, 6), 'hello'],
    ['a DataView', () => new DataView(bytes.buffer, 1, 5), 'hello'],
    ['a Buffer', () => Buffer.from('hello'), 'hello'],
    ['a Blob', () => new Blob(['hello'], { type: 'text/x-blob' }), 'hello'],
    ['a form', form, undefined],
    ['nothing', () => undefined, ''],
  ])('%s: three requests are the same', async (_name, body, text) => {
    const { url, received } = await serve(2);
    const init = { method: 'POST', body: body() } as RequestInit;
    const response = await createFetch({ retry })(url, init);
    expect(response.status).toBe(200);
    expect(received).toHaveLength(3);
    const same = ({ headers, text: sent }: Received): string[] => {
      // A form is parted by a line that is drawn anew.
      const boundary = /boundary=(.*)$/.exec(headers['content-type'] ?? '')?.[1] ?? '\0';
      return [sent, headers['content-type'] ?? '', headers['content-length'] ?? ''].map((each) =>
        each.replaceAll(boundary, '|'),
      );
    };
    const [first, ...others] = received.map(same);
    for (const each of others) expect(each).toEqual(first);
    if (text !== undefined) expect(received[2]?.text).toBe(text);
    else expect(received[2]?.text).toContain('filename="notes.txt"');
  });

  it('is what it was when the call was made', async () => {
    const { url, received } = await serve(1);
    const fetch = createFetch({ retry: { baseMs: 30 } });
    const array = Buffer.from('hello');
    const search = new URLSearchParams({ a: '1' });
    const data = form();
    const headers = new Headers({ 'X-Mark': 'before' });
    const calls = [array, search, data].map((body) =>
      fetch(url, { method: 'POST', body, headers }),
    );
    array.fill('x');
    search.set('a', '2');
    data.set('name', 'Bob');
    headers.set('X-Mark', 'after');
    await Promise.all(calls);
    const sent = received.map(({ text }) => text).join('\n');
    expect(sent).toContain('hello');
    expect(sent).toContain('a=1');
    expect(sent).toContain('Ada');
    expect(sent).not.toMatch(/x{5}|a=2|Bob/);
    expect(new Set(received.map((each) => each.headers['x-mark']))).toEqual(new Set(['before']));
  });

  it.each([
    ['a string', () => 'hello' as const],
    ['a stream', stream],
  ])('is that of a Request, of %s, which is used up as it always is', async (_name, body) => {
    const { url, received } = await serve(2);
    const init = { method: 'POST', body: body(), duplex: 'half', headers: { 'X-Mark': 'yes' } };
    const request = new Request(url, init as RequestInit);
    const response = await createFetch({ retry })(request);
    expect(response.status).toBe(200);
    expect(received.map(({ text }) => text)).toEqual(['hello', 'hello', 'hello']);
    expect(new Set(received.map(({ headers }) => headers['x-mark']))).toEqual(new Set(['yes']));
    expect(request.bodyUsed).toBe(true);
    await expect(createFetch()(request)).rejects.toThrow(TypeError);
  });

  it('leaves a Request alone whose body is overridden, or that was never sent', async () => {
    const { url, received } = await serve(1);
    const limiter = createLimiter({
      limits: [{ name: 'api', policy: tokenBucket({ capacity: 0, rate: 1, per: '1s' }) }],
    });
    const request = new Request(url, { method: 'POST', body: 'own' });
    const fetch = createFetch({ retry });
    await fetch(request, { method: 'PUT', body: 'other' });
    expect(received.map(({ text }) => text)).toEqual(['other', 'other']);
    await expect(createFetch({ limiter, keys: { api: 'a' } })(request)).rejects.toMatchObject({
      code: 'TOLLGATE_WAIT',
    });
    await fetch(request);
    expect(received.at(-1)?.text).toBe('own');
  });
});

describe('a body that can be sent only once', () => {
  it.each([
    ['a stream', stream],
    ['a generator', parts],
    ['a Readable of Node', () => Readable.from(parts())],
  ])('%s is not sent again, and the caller is told', async (_name, body) => {
    const { url, received } = await serve(1);
    const diary = new Diary();
    const fetch = createFetch({ retry, ...diary.observers });
    const init = { method: 'POST', body: body(), duplex: 'half' } as unknown as RequestInit;
    const response = await fetch(url, init);
    expect(response.status).toBe(429);
    expect(await response.text()).toBe('an answer');
    expect(received.map(({ text }) => text)).toEqual(['hello']);
    expect(outcomeOf(response)).toMatchObject({ attempts: 1, reason: 'body' });
    expect(diary.givenUp).toMatchObject([{ reason: 'body', status: 429, method: 'POST' }]);
  });

  it('is sent as ever where it is not refused', async () => {
    const { url, received } = await serve(0);
    const init = { method: 'POST', body: stream(), duplex: 'half' } as RequestInit;
    const response = await createFetch({ pace: true })(url, init);
    expect(response.status).toBe(200);
    expect(outcomeOf(response)).toEqual({ attempts: 1, reason: undefined, serverMs: undefined });
    expect(received[0]?.text).toBe('hello');
  });
});

describe('a refusal', () => {
  it('that is followed by another request leaves its connection to it', async () => {
    const ports = new Set<number | undefined>();
    let count = 0;
    const server = createServer((request, response) => {
      ports.add(request.socket.remotePort);
      response.statusCode = count++ < 3 ? 503 : 200;
      response.end('x'.repeat(30_000));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const response = await createFetch({ retry: { baseMs: 20 } })(url);
    expect(await response.text()).toHaveLength(30_000);
    expect(ports.size).toBe(1);
  });

  it.each([10, 65_536, 300_000])('of %i bytes can be read after all', async (length) => {
    let count = 0;
    const server = createServer((_request, response) => {
      response.statusCode = 429;
      count++;
      response.end('x'.repeat(length));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    const limiter = createLimiter({
      limits: [{ name: 'api', policy: tokenBucket({ capacity: 1, rate: 1, per: '1h' }) }],
    });
    const fetch = createFetch({ retry: { baseMs: 5 }, limiter, keys: { api: 'a' } });
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    expect(outcomeOf(response)?.reason).toBe('place');
    expect(await response.text()).toHaveLength(length);
    expect(count).toBe(1);
  });
});
