import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { build } from './readme/built.ts';

interface Said {
  /** 0 for a process that is in no cluster, or its primary. */
  readonly worker: number;
  readonly code: string;
  readonly message?: string;
}

const MEMBER = fileURLToPath(new URL('processes-member.mjs', import.meta.url));

async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<readonly Said[]> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [MEMBER, ...args], {
    env: { ...process.env, NODE_APP_INSTANCE: '', ...env },
  });
  expect(stderr).toBe('');
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Said);
}

/** The codes that each process was told of, in the order of their numbers. */
function codesOf(said: readonly Said[]): string[][] {
  const codes: string[][] = [];
  for (const { worker, code } of said) (codes[worker] ??= []).push(code);
  return codes;
}

beforeAll(build, 180_000);

describe('a memory store in one of several processes', () => {
  it('is told of once by each worker of a cluster, and not by its primary', async () => {
    const said = await run(['2', 'memory']);
    const once = ['TOLLGATE_MANY_PROCESSES', 'done'];
    expect(codesOf(said)).toEqual([['done'], once, once]);
    expect(said.find(({ message }) => message !== undefined)?.message).toMatch(
      /counts in its own memory.*redisStore\(\).*divide the limits/,
    );
  });

  it.each([
    ['', []],
    ['0', []],
    ['1', ['TOLLGATE_MANY_PROCESSES']],
  ])('is told of by what PM2 calls instance %j: %j', async (instance, codes) => {
    const said = await run(['0', 'memory'], { NODE_APP_INSTANCE: instance });
    expect(codesOf(said)).toEqual([[...codes, 'done']]);
  });
});

it('a Redis store is shared, so there is nothing to tell', async () => {
  expect(codesOf(await run(['1', 'redis']))).toEqual([['done'], ['done']]);
});
