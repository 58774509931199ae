import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build, ROOT } from '../../../test/readme/built.ts';
import type { ReplayReport } from '../src/index.ts';
import { type Ended, tollgate as run } from './tollgate.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-'));
const at = (name: string): string => join(folder, name);
const LIMITS = {
  limits: [{ name: 'api', policy: { algorithm: 'token-bucket', capacity: 2, rate: 1, per: '1m' } }],
};
const LINE = '2001:db8::7 - - [10/Oct/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1\n';

const tollgate = (args: readonly string[], input = ''): Promise<Ended> =>
  run(args, { cwd: folder, input });

beforeAll(() => {
  build();
  writeFileSync(at('limits.json'), JSON.stringify(LIMITS));
  writeFileSync(at('access.log'), LINE.repeat(3));
  writeFileSync(at('access.log.gz'), gzipSync(LINE.repeat(3)));
}, 180_000);
afterAll(() => rmSync(folder, { recursive: true }));

describe('tollgate replay', () => {
  it('prints what limits would have done, and writes a page', async () => {
    const args = ['replay', 'access.log', '--limits', 'limits.json', '--html', 'report.html'];
    const { code, out, err } = await tollgate(args);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain('3 requests, 1 refused (33.33 %)');
    expect(out).toContain('2001:db8::/56');
    expect(readFileSync(at('report.html'), 'utf8')).toContain('2001:db8::/56');
  });

  it('reads several logs, gzip and standard input, and prints JSON', async () => {
    const args = ['replay', 'access.log.gz', '-', '--limits', 'limits.json', '--json', '--compare'];
    const { code, out } = await tollgate(args, `${LINE}nonsense\n`);
    expect(code).toBe(0);
    const report = JSON.parse(out) as ReplayReport;
    expect(report).toMatchObject({ requests: 4, refused: 2, badLines: 1 });
    expect(report.firstBadLines[0]).toMatchObject({ log: '(stdin)', line: 2 });
    expect(report.limits[0]?.algorithms).toHaveLength(4);
  });

  it.each([
    [['replay', '--limits', 'limits.json'], 'replay needs an access log'],
    [['replay', 'access.log'], 'replay needs --limits'],
    [['replay', 'none.log', '--limits', 'limits.json'], 'none.log cannot be read: ENOENT'],
    [['replay', '.', '--limits', 'limits.json'], '. cannot be read: it is a folder'],
    [['replay', 'access.log', '--limits', 'none.json'], 'none.json cannot be read: ENOENT'],
    [['replay', 'access.log', '--limits', 'access.log'], 'access.log: is no JSON'],
    [['replay', 'access.log', '--limits', 'limits.json', '--top', '-1'], '--top'],
    [['replay', 'access.log', '--limits', 'limits.json', '--max', '5'], "Unknown option '--max'"],
    [['replay', 'access.log', '--limits', 'limits.json', '--html', './no/r.html'], '--html: ./no'],
    [['reply'], 'There is no command "reply"'],
    [[], 'Which command?'],
  ])('says what is wrong with %j, and ends with 2', async (args, message) => {
    const { code, out, err } = await tollgate(args);
    expect(err).toContain(message);
    expect(err).not.toContain('    at ');
    expect([code, out]).toEqual([2, '']);
  });
});

it('tollgate schema prints what is published', async () => {
  const { code, out } = await tollgate(['schema']);
  expect(code).toBe(0);
  const published = readFileSync(`${ROOT}packages/cli/limits.schema.json`, 'utf8');
  expect(JSON.parse(published)).toEqual(JSON.parse(out));
});
