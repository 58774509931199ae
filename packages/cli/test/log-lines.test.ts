import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { bytesOf, logSource, UnreadableLogError } from '../src/log/bytes.ts';
import { fieldOf } from '../src/log/json.ts';
import { eachLine } from '../src/log/lines.ts';
import type { LogRequest } from '../src/log/request.ts';
import { readLine } from '../src/replay/replay.ts';

const read = (line: string): ReturnType<typeof readLine> => readLine(line, 0, line.length);

function request(line: string): LogRequest {
  // Within a longer text, as it stands in a log: nothing may be read beyond its end.
  const text = `"[x] ${line}\n"GET /other HTTP/1.1" [10/Oct/2000:13:55:36 -0700]`;
  const result = readLine(text, 5, 5 + line.length);
  if (result === null || typeof result === 'string') throw new Error(`no request: ${result}`);
  return result;
}

describe('a line of the common log format', () => {
  it('tells address, time, method, path and route', () => {
    const line =
      '2001:db8::7 - ada [10/Oct/2000:13:55:36 -0700] "GET /a/b?c=d HTTP/1.0" 200 2326 "-" "curl"';
    const { time, ip, method, url, routeOptions, duration } = request(line);
    expect(time).toBe(Date.UTC(2000, 9, 10, 20, 55, 36) * 1_000);
    expect([ip, method, url, routeOptions.url]).toEqual(['2001:db8::7', 'GET', '/a/b?c=d', '/a/b']);
    expect(duration).toBeUndefined();
  });

  it('is read with a user of any name and a request with quotes', () => {
    const line = '::1 - a [b] "c [01/Jan/2026:00:00:00 +0530] "POST /\\"x\\" HTTP/1.1" 400 0';
    expect(request(line).url).toBe('/\\"x\\"');
    expect(request(line).time).toBe(Date.UTC(2025, 11, 31, 18, 30) * 1_000);
  });

  it.each(['-', '', '\\x16\\x03\\x01', 'GET', 'GET '])('holds no request: "%s"', (text) => {
    expect(read(`::1 - - [01/Jan/2026:00:00:00 +0000] "${text}" 400 0`)).toBeNull();
  });

  it.each([
    ['hello', 'begins with no address'],
    ['::1 - - hello', 'has no time'],
    ['::1 - - [01/Jam/2026:00:00:00 +0000] "GET / HTTP/1.1"', 'has no time'],
    ['::1 - - [01/Jan/2026:24:00:00 +0000] "GET / HTTP/1.1"', 'has no time'],
    ['::1 - - [/9/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1"', 'has no time'],
    ['::1 - - [01/Jan/2026:00:00:00 +00', 'has no time'],
    ['::1 - - [01/Jan/2026:00:00:00 +0000]', 'has no request in quotes'],
    ['::1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTT', 'ends within the request'],
    ['::1 - - [01/Jan/2026:00:00:00 +0000] "GET /\\"', 'ends within the request'],
  ])('is bad: %s', (line, reason) => {
    expect(read(line)).toContain(reason);
  });
});

describe('a line of JSON', () => {
  const time = 1_800_000_000_123;

  it("is Fastify's incoming request, and not its completion", () => {
    const req = { method: 'GET', url: '/x?y', host: 'h', remoteAddress: '::1', remotePort: 5 };
    const line = { level: 30, time, pid: 1, hostname: 'h', reqId: 'req-1', req, msg: 'incoming' };
    expect(request(JSON.stringify(line))).toMatchObject({
      time: time * 1_000,
      method: 'GET',
      url: '/x?y',
      ip: '::1',
      routeOptions: { url: '/x' },
    });
    const done = { level: 30, time, reqId: 'req-1', res: { statusCode: 200 }, responseTime: 5 };
    expect(read(JSON.stringify(done))).toBeNull();
    expect(read(JSON.stringify({ level: 30, time, msg: 'Server listening' }))).toBeNull();
  });

  it("is pino-http's, which was written when the request ended", () => {
    const req = { method: 'GET', url: '/', headers: { 'x-api-key': 'k' }, remoteAddress: '::1' };
    const line = JSON.stringify({ time, req, res: {}, responseTime: 20.5, msg: 'completed' });
    const result = request(line);
    expect(result.time).toBe(time * 1_000 - 20_500);
    expect(result.duration).toBe(20_500);
    expect(result.headers['x-api-key']).toBe('k');
    expect(fieldOf(result.fields, ['headers', 'x-api-key'])).toBe('k');
    expect(fieldOf(result.fields, ['req', 'method'])).toBe('GET');
    expect(fieldOf(result.fields, ['constructor', 'name'])).toBeUndefined();
  });

  it.each([
    [{ method: 'GET', url: '/', 'remote-addr': '::1', date: '2027-01-15T08:00:00.123Z' }],
    [{ method: 'GET', url: '/', remoteAddr: '::1', timestamp: time, responseTime: '' }],
    [
      {
        request: 'GET / HTTP/1.1',
        remote_addr: '::1',
        time_iso8601: '2027-01-15T09:00:00.123+01:00',
      },
    ],
    [{ method: 'GET', url: '/', ip: '::1', ts: time / 1_000 }],
    [{ method: 'GET', url: '/', ip: '::1', time: String(time * 1_000) }],
    [
      {
        httpRequest: 1,
        method: 'GET',
        url: '/',
        clientIp: '::1',
        date: time,
        'response-time': '-',
      },
    ],
  ])('is written by others: %j', (line) => {
    expect(request(JSON.stringify(line))).toMatchObject({
      time: time * 1_000,
      method: 'GET',
      url: '/',
      ip: '::1',
    });
  });

  it.each([
    ['{"a":', 'is no whole JSON'],
    ['{"method":"GET","url":"/"}', 'has no time'],
    ['{"method":"GET","url":"/","time":"yesterday"}', 'has no time'],
    ['{"method":"GET","url":"/","time":{}}', 'has no time'],
  ])('is bad: %s', (line, reason) => {
    expect(read(line)).toBe(reason);
  });
});

describe('lines', () => {
  const linesOf = async (chunks: readonly Buffer[]): Promise<string[]> => {
    const lines: string[] = [];
    await eachLine(Readable.from(chunks), (text, from, end) => lines.push(text.slice(from, end)));
    return lines;
  };

  it('are the same wherever chunks end', async () => {
    const text = Buffer.from('\uFEFFeins\r\nzwölf €\n\n\ndrei\n𝄞 vier');
    for (let size = 1; size <= text.length; size++) {
      const chunks: Buffer[] = [];
      for (let at = 0; at < text.length; at += size) chunks.push(text.subarray(at, at + size));
      expect(await linesOf(chunks)).toEqual(['eins', 'zwölf €', 'drei', '𝄞 vier']);
    }
  });

  it('beyond a mebibyte are shown as their beginning, and take no memory', async () => {
    const long = Array.from({ length: 40 }, () => Buffer.alloc(100_000, 'x'));
    const lines = await linesOf([Buffer.from('a\n'), ...long, Buffer.from('\nb\n')]);
    expect(lines.map((line) => line.length)).toEqual([1, 200, 1]);
  });
});

describe('a log', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-log-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const textOf = async (content: Buffer): Promise<string> => {
    const path = join(folder, 'access.log');
    writeFileSync(path, content);
    const chunks: Buffer[] = [];
    for await (const chunk of bytesOf(logSource(path))) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  };

  it('is unzipped by what it begins with, not by its name', async () => {
    const long = 'line\n'.repeat(500_000);
    // Compared as a boolean: nobody wants to see how two texts of this length differ.
    expect((await textOf(Buffer.from(long))) === long).toBe(true);
    expect((await textOf(gzipSync(long))) === long).toBe(true);
    expect(await textOf(Buffer.concat([gzipSync('one\n'), gzipSync('two\n')]))).toBe('one\ntwo\n');
    expect(await textOf(Buffer.alloc(0))).toBe('');
    expect(await textOf(Buffer.from('x'))).toBe('x');
  });

  it('that is broken, missing or a folder cannot be read', async () => {
    const packed = gzipSync('line\n'.repeat(1_000));
    await expect(textOf(packed.subarray(0, packed.length - 10))).rejects.toThrow(
      UnreadableLogError,
    );
    expect(() => logSource(join(folder, 'none'))).toThrow(/none cannot be read: ENOENT/);
    expect(() => logSource(folder)).toThrow('it is a folder');
  });
});
