import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLimiter, tokenBucket } from '@tollgate/core';
import { createFetch, outcomeOf } from '@tollgate/fetch';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import * as undici from 'undici';

/** undici's own, whose types differ in name from those of the platform that are made from it. */
const other = undici.fetch as unknown as typeof globalThis.fetch;

const heard: string[] = [];
/** Refuses every first request of a path. */
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const said = `${request.method} ${Buffer.concat(chunks).toString()}`;
    response.statusCode = heard.includes(said) ? 200 : 429;
    response.setHeader('Retry-After', '0');
    heard.push(said);
    response.end(said);
  });
});
let url: string;

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => server.close());
beforeEach(() => void (heard.length = 0));

const limiter = createLimiter({
  limits: [{ name: 'out', policy: tokenBucket({ capacity: 10, rate: 10, per: '1s' }) }],
});
const send = createFetch({
  fetch: other,
  limiter,
  keys: { out: 'us' },
  retry: { baseMs: 1 },
});

test.each<[string, () => Promise<Response>]>([
  ['GET ', () => send(url)],
  ['GET ', () => send(new URL(url), { headers: { accept: 'text/plain' } })],
  ['POST hello', () => send(url, { method: 'POST', body: 'hello' })],
  ['POST bytes', () => send(url, { method: 'POST', body: Buffer.from('bytes') })],
  ['PUT a=1', () => send(url, { method: 'PUT', body: new URLSearchParams({ a: '1' }) })],
  [
    'POST own',
    () => send(new undici.Request(url, { method: 'POST', body: 'own' }) as unknown as Request),
  ],
])('undici’s fetch in place of the platform’s: %s', async (said, call) => {
  const response = await call();
  expect([response.status, await response.text()]).toEqual([200, said]);
  expect(outcomeOf(response)?.attempts).toBe(2);
  expect(heard).toEqual([said, said]);
});

test('an abort reaches a fetch of another make', async () => {
  const abort = new AbortController();
  const reason = new Error('enough');
  const sent = send(url, { signal: abort.signal });
  abort.abort(reason);
  await expect(sent).rejects.toBe(reason);
});
