import { createLimiter, memoryStore, parseLimits } from '@tollgate/core';
import fc from 'fast-check';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { replay, type ReplayOptions, type ReplayReport } from '../src/index.ts';
import { Rival } from '../src/replay/rival.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-replay-'));
afterAll(() => rmSync(folder, { recursive: true }));

const START = Date.UTC(2026, 9, 10);
const line = (seconds: number, ip: string, path = '/', method = 'GET'): string =>
  `${ip} - - [10/Oct/2026:00:00:${String(seconds).padStart(2, '0')} +0000] "${method} ${path} HTTP/1.1" 200 1`;

async function run(
  lines: readonly string[],
  limits: readonly object[],
  options: Partial<ReplayOptions> = {},
): Promise<ReplayReport> {
  const path = join(folder, 'access.log');
  writeFileSync(path, lines.join('\n'));
  return replay([path], { limits: parseLimits(JSON.stringify({ limits })), ...options });
}

const window = (limit: number): object => ({ algorithm: 'fixed-window', limit, window: '10s' });

describe('a replay', () => {
  it('tells per limit who would have been refused, and when', async () => {
    const report = await run(
      [line(0, 'a'), line(1, 'a'), line(2, 'b'), line(3, 'a'), line(11, 'a'), 'nonsense', ''],
      [{ name: 'api', policy: window(1) }],
    );
    expect(report).toMatchObject({
      requests: 5,
      admitted: 3,
      refused: 2,
      refusedShare: 0.4,
      badLines: 1,
      fromMs: START,
      toMs: START + 11_000,
    });
    expect(report.firstBadLines[0]).toMatchObject({ line: 6, text: 'nonsense' });
    expect(report.limits[0]).toMatchObject({ requests: 5, refused: 2, topIsExact: true });
    expect(report.limits[0]?.top).toEqual([
      { key: 'a', refused: 2, atLeast: 2, firstMs: START + 1_000, lastMs: START + 3_000 },
    ]);
    expect(report.timeline.limits['api']?.refused).toEqual([0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it('charges nothing for what another limit refuses, as a gate does', async () => {
    const lines = [line(0, 'a', '/x'), line(0, 'a', '/x'), line(0, 'a', '/y'), line(0, 'a', '/y')];
    const report = await run(lines, [
      { name: 'address', policy: window(2) },
      { name: 'route', by: ['ip', 'route'], policy: window(1) },
    ]);
    expect(report.limits.map(({ refused }) => refused)).toEqual([1, 2]);
    expect(report.refused).toBe(2);
    expect(report.limits[1]?.top.map(({ key }) => key)).toEqual(['a|GET /x', 'a|GET /y']);
  });

  it('counts shadows, and does not refuse for them', async () => {
    const lines = [line(0, 'a'), line(0, 'a'), line(0, 'a')];
    const report = await run(lines, [{ name: 'new', mode: 'shadow', policy: window(1) }]);
    expect(report).toMatchObject({ refused: 0, admitted: 3 });
    expect(report.limits[0]).toMatchObject({ refused: 2, shadow: true });
  });

  it('applies a limit to what it matches, and groups addresses as clientIp does', async () => {
    const lines = [
      line(0, '2001:db8:0:1::1', '/login', 'POST'),
      line(0, '2001:db8:0:2::1', '/login', 'POST'),
      line(0, '2001:db8:0:1::1', '/login'),
      line(0, '2001:db8:0:1::1', '/other', 'POST'),
    ];
    const match = { method: 'POST', path: '/login' };
    const report = await run(lines, [{ name: 'login', match, policy: window(1) }]);
    expect(report).toMatchObject({ refused: 1, unlimited: 2 });
    expect(report.limits[0]?.top[0]?.key).toBe('2001:db8::/56');
  });

  it('puts lines in order, and judges what comes too late at the time reached', async () => {
    const lines = [line(3, 'a'), line(1, 'a'), line(2, 'a')];
    const limits = [{ name: 'api', policy: { algorithm: 'sliding-log', limit: 1, window: '2s' } }];
    expect(await run(lines, limits)).toMatchObject({ sorted: 2, late: 0, refused: 1 });
    const late = [line(2, 'a'), line(3, 'a'), line(1, 'a')];
    const report = await run(late, limits, { reorder: 1 });
    expect(report).toMatchObject({ sorted: 0, late: 1, refused: 2, fromMs: START + 2_000 });
  });

  it('reads keys from JSON, hashes secrets and falls back on the address', async () => {
    const json = (headers: object): string =>
      JSON.stringify({
        time: START,
        req: { method: 'GET', url: '/', remoteAddress: 'r', headers },
      });
    const lines = ['k-123', 'k-123', 'k-4', undefined, undefined].map((key) =>
      json({ 'x-api-key': key }),
    );
    const limit = { name: 'key', by: { field: 'headers.x-api-key' }, policy: window(1) };
    const report = await run(lines, [limit]);
    expect(report.limits[0]?.top.map(({ key }) => key.replace(/:.*/, ''))).toEqual([
      'ip',
      'secret',
    ]);
    expect(JSON.stringify(report)).not.toContain('k-123');
    const optional = { ...limit, by: { field: 'headers.x-api-key', optional: true } };
    expect((await run(lines, [optional])).limits[0]).toMatchObject({ withoutKey: 2, refused: 1 });
  });

  it('holds slots for as long as requests took, where a line says so', async () => {
    const json = (endMs: number, responseTime?: number): string =>
      JSON.stringify({ time: START + endMs, method: 'GET', url: '/', ip: 'a', responseTime });
    // From 0 to 100, from 50 to 60 (refused), from 100 to 200, and one that nobody knows the end of.
    const lines = [json(60, 10), json(100, 100), json(200, 100), json(300)];
    const policy = { algorithm: 'concurrency', limit: 1 };
    const report = await run(lines, [{ name: 'slots', policy }], { compare: true });
    expect(report.limits[0]).toMatchObject({ requests: 3, refused: 1, withoutDuration: 1 });
    expect(report.limits[0]?.top[0]?.firstMs).toBe(START + 50);
    expect(report.limits[0]?.algorithms).toEqual([]);
  });

  it('compares algorithms by the same numbers', async () => {
    const lines = [8, 9, 9, 10, 11, 11, 19].map((second) => line(second, 'a'));
    const report = await run(lines, [{ name: 'api', policy: window(3) }], { compare: true });
    const refused = report.limits[0]?.algorithms?.map(({ algorithm, refused: n }) => [
      algorithm,
      n,
    ]);
    expect(refused).toEqual([
      ['fixed-window', 1],
      ['sliding-window', 3],
      ['sliding-log', 3],
      ['token-bucket', 3],
    ]);
    const bucket = { algorithm: 'token-bucket', capacity: 20_000, rate: 10, per: '1s' };
    const large = await run(lines, [{ name: 'api', policy: bucket }], { compare: true });
    expect(large.limits[0]?.algorithms?.[0]?.policy).toMatchObject({ limit: 20_000, window: 2e6 });
    expect(large.limits[0]?.algorithms?.[2]?.problem).toContain('10000');
  });

  it('takes limits that are written by hand as it does those of a file', async () => {
    const lines = [8, 9, 9, 10, 11, 11, 19].map((second) => line(second, 'a'));
    const policy = { algorithm: 'fixed-window', limit: 3, window: '10s' } as const;
    const ofFile = [{ name: 'api', policy: window(3) }];
    const byHand = { limits: [{ name: 'api', policy }], compare: true };
    expect(await run(lines, ofFile, byHand)).toEqual(await run(lines, ofFile, { compare: true }));
    const wrong = { limits: [{ name: 'api', policy: { ...policy, window: '10 parsecs' } }] };
    const refused = run(lines, ofFile, wrong as ReplayOptions);
    await expect(refused).rejects.toThrow('limits[0].policy.window');
  });
});

it('a rival decides as a limiter with a store does', () => {
  const policies = fc.constantFrom(
    { algorithm: 'fixed-window', limit: 3, window: 1_000, spread: true } as const,
    { algorithm: 'sliding-window', limit: 3, window: 1_000 } as const,
    { algorithm: 'sliding-log', limit: 3, window: 1_000 } as const,
    { algorithm: 'token-bucket', capacity: 3, rate: 7, per: 1_000 } as const,
  );
  const requests = fc.array(fc.tuple(fc.nat(500_000), fc.constantFrom('a', 'b')));
  fc.assert(
    fc.property(policies, requests, fc.nat(2), (policy, steps, cost) => {
      let now = 1_800_000_000_000_000;
      const limiter = createLimiter({
        store: memoryStore({ clock: () => now }),
        limits: [{ name: 'x', policy, cost }],
      });
      const rival = new Rival(policy, cost);
      let refused = 0;
      for (const [step, key] of steps) {
        now += step;
        if (!limiter.consume({ x: key }).allowed) refused++;
        rival.consume(key, now);
      }
      expect(rival.refused).toBe(refused);
    }),
  );
});
