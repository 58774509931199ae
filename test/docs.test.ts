import { type ChildProcess, execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { parseLimits } from '@tollgate/core';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { blocksOf } from './readme/blocks.ts';
import { build, ROOT } from './readme/built.ts';
import { RedisServer } from './redis/server.ts';

/** What a module did, as the child that runs it tells. */
interface Run {
  readonly lines: readonly string[];
  readonly warnings: readonly string[];
  readonly error?: string;
}

/** Pages whose modules provoke what a limiter warns of. */
const WARNS: readonly string[] = ['redis.md', 'failure-modes.md', 'troubleshooting.md'];

const pages = readdirSync(`${ROOT}docs`).filter((file) => file.endsWith('.md'));
const blocks = pages.flatMap((page) =>
  blocksOf(readFileSync(`${ROOT}docs/${page}`, 'utf8')).map((block) => ({ page, ...block })),
);
/** A module that starts itself anew, as a cluster does, runs in a process of its own. */
const isProgram = ({ code }: { readonly code: string }): boolean => code.includes('node:cluster');
const scripts = blocks.filter(({ language }) => language === 'js');
const modules = scripts.filter((block) => !isProgram(block));
const programs = scripts.filter(isProgram);
const typed = blocks.filter(({ language }) => language === 'ts');
const files = blocks.filter(({ language }) => language === 'json');

/** Stands for the service that is called. */
const provider = createServer((_, response) => response.end('sent'));
const runs: Run[] = [];
let redis: RedisServer;
let env: NodeJS.ProcessEnv;
let child: ChildProcess;
let folder: string;

beforeAll(async () => {
  build();
  redis = await RedisServer.start();
  await once(provider.listen(0, '127.0.0.1'), 'listening');
  // Modules find packages from where they stand, and nobody commits what is in node_modules.
  folder = mkdtempSync(`${ROOT}test/node_modules/.docs-`);
  const paths = modules.map(({ code }, index) => {
    const path = `${folder}/${index}.mjs`;
    writeFileSync(path, code);
    return path;
  });
  env = {
    ...process.env,
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    PROVIDER_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}`,
  };
  child = fork(new URL('readme/run.mjs', import.meta.url), paths, { execArgv: [], env });
  await new Promise<void>((resolve, reject) => {
    child.on('message', (message: Run | string) => {
      if (typeof message !== 'string') runs.push(message);
      if (runs.length === paths.length) resolve();
    });
    child.once('exit', (status) => reject(new Error(`The modules ended with ${status}.`)));
  });
}, 180_000);

afterAll(async () => {
  if (child?.kill()) await once(child, 'exit');
  provider.close();
  await redis?.stop();
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

describe('every block of JavaScript in the pages is a module that prints what it says', () => {
  it.each(modules.map(({ page, heading }, index) => [page, heading, index] as const))(
    '%s, %s',
    (page, _heading, index) => {
      const run = runs[index];
      expect(run?.error).toBeUndefined();
      expect(run?.lines).toEqual(modules[index]?.printed);
      const told = run?.warnings.filter((line) => line.includes('TOLLGATE_'));
      if (!WARNS.includes(page)) expect(told).toEqual([]);
    },
  );
});

it.each(programs.map(({ page, heading, ...program }) => [page, heading, program] as const))(
  '%s, %s: the program prints what it says, and ends',
  async (_page, _heading, { code, printed }) => {
    const path = `${folder}/program.mjs`;
    writeFileSync(path, code);
    const flusher = new Redis(redis.port);
    onTestFinished(() => flusher.disconnect());
    const run = async (): Promise<{ stdout: string; stderr: string }> => {
      await flusher.flushall();
      return promisify(execFile)(process.execPath, [path], { env });
    };
    let { stdout, stderr } = await run();
    // Redis may be late on a busy machine.
    for (let i = 0; i < 3 && stderr.includes('TOLLGATE_STORE'); i++) {
      ({ stdout, stderr } = await run());
    }
    expect(stdout.split('\n').filter((text) => text !== '')).toEqual(printed);
    expect(stderr).not.toContain('TOLLGATE_');
  },
);

it('every block of TypeScript in the pages is of the types that it says', async () => {
  const sources = mkdtempSync(`${ROOT}test/node_modules/.docs-types-`);
  onTestFinished(() => rmSync(sources, { recursive: true }));
  for (const [index, { page, code }] of typed.entries()) {
    writeFileSync(`${sources}/${page}-${index}.mts`, code);
  }
  expect(typed.length).toBeGreaterThan(0);
  const compilerOptions = {
    target: 'es2023',
    module: 'nodenext',
    types: ['node'],
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    exactOptionalPropertyTypes: true,
  };
  writeFileSync(
    `${sources}/tsconfig.json`,
    JSON.stringify({ compilerOptions, include: ['*.mts'] }),
  );
  const tsc = `${ROOT}node_modules/typescript/bin/tsc`;
  const said = await promisify(execFile)(process.execPath, [tsc, '-p', sources]).then(
    ({ stdout }) => stdout,
    (error: { readonly stdout?: string; readonly message: string }) =>
      error.stdout ?? error.message,
  );
  expect(said).toBe('');
}, 120_000);

it.each(files.map(({ page, heading, code }) => [page, heading, code] as const))(
  '%s, %s: the limits file holds limits',
  (_page, _heading, code) => {
    expect(parseLimits(code).length).toBeGreaterThan(0);
  },
);
