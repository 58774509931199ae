import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocksOf } from './readme/blocks.ts';
import { build, ROOT } from './readme/built.ts';
import { RedisServer } from './redis/server.ts';

/** What a block did, as the child that runs it tells. */
interface Run {
  readonly lines: readonly string[];
  readonly warnings: readonly string[];
  readonly ports: readonly number[];
  readonly error?: string;
}

const page = readFileSync(`${ROOT}README.md`, 'utf8');
const blocks = blocksOf(page);
const modules = blocks.filter(({ language }) =>
  /^(js|ts|mjs|javascript|typescript)$/.test(language),
);
const runs: Run[] = [];
const printedLater: string[] = [];
let folder: string;
let child: ChildProcess;
let redis: RedisServer;

beforeAll(async () => {
  build();
  redis = await RedisServer.start();
  // Modules find packages from where they stand, and nobody commits what is in node_modules.
  folder = mkdtempSync(`${ROOT}test/node_modules/.readme-`);
  const files = modules.map(({ code }, index) => {
    const file = `${folder}/${index}.mjs`;
    writeFileSync(file, code);
    return file;
  });
  child = fork(new URL('readme/run.mjs', import.meta.url), files, {
    execArgv: [],
    env: { ...process.env, REDIS_URL: `redis://127.0.0.1:${redis.port}` },
  });
  await new Promise<void>((resolve, reject) => {
    child.on('message', (message: Run | string) => {
      if (typeof message === 'string') printedLater.push(message);
      else runs.push(message);
      if (runs.length === files.length) resolve();
    });
    child.once('exit', (status) => reject(new Error(`The blocks ended with ${status}.`)));
  });
}, 180_000);

afterAll(async () => {
  if (child?.kill()) await once(child, 'exit');
  await redis?.stop();
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** The address of the server that the `nth` module under a heading starts. */
function serverOf(heading: string, nth = 0): string {
  const [index] = [...modules.keys()]
    .filter((each) => modules[each]?.heading === heading)
    .slice(nth);
  const port = index === undefined ? undefined : runs[index]?.ports[0];
  if (port === undefined) throw new Error(`${heading}: no server listens.`);
  return `http://localhost:${port}`;
}

async function statusesOf(answers: readonly Promise<Response>[]): Promise<number[]> {
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  return statuses.sort((a, b) => a - b);
}

describe('every block of the README is a module that', () => {
  it.each(modules.map(({ heading }, index) => [index, heading] as const))(
    'prints what it says: %i, %s',
    (index) => {
      const run = runs[index];
      expect(run?.error).toBeUndefined();
      expect(run?.lines).toEqual(modules[index]?.printed);
      // Mistakes that a gate tells its operator of.
      expect(run?.warnings.filter((line) => line.includes('TOLLGATE_'))).toEqual([]);
    },
  );

  it('is not the only kind of block', () => {
    expect(modules.length).toBeGreaterThan(15);
    expect(new Set(blocks.map(({ language }) => language))).toEqual(new Set(['js', 'sh', 'http']));
  });
});

describe('the first limit', () => {
  const shown = blocks.find(({ language }) => language === 'http')?.code ?? '';
  const [head = '', body = ''] = shown.split('\n\n');

  it.each([
    ['Fastify', 0],
    ['Express', 1],
  ])('admits ten requests and then answers as shown, with %s', async (_framework, nth) => {
    const url = serverOf('A first limit', nth);
    for (let i = 0; i < 10; i++) {
      const admitted = await fetch(url);
      expect(admitted.status).toBe(200);
      expect(await admitted.json()).toEqual({ hello: 'world' });
      expect(admitted.headers.get('ratelimit')).toMatch(/^"default";r=\d;t=[1-6]$/);
    }
    const refused = await fetch(url);
    const wait = refused.headers.get('retry-after') ?? '';
    // Six seconds, of which some have passed where the machine is busy.
    expect(wait).toMatch(/^[1-6]$/);
    const [status = '', ...fields] = head.split('\n');
    expect(status).toBe(`HTTP/1.1 ${refused.status} ${refused.statusText}`);
    expect(fields).toContain('Retry-After: 6');
    for (const field of fields) {
      const [name = '', value = ''] = field.split(': ');
      const timed = value.replace(/(^|t=)6$/, `$1${wait}`);
      expect(`${name}: ${refused.headers.get(name)}`).toBe(`${name}: ${timed}`);
    }
    expect(await refused.json()).toEqual(JSON.parse(body));
  });
});

it('charges a dearer route of Express the difference', async () => {
  const url = serverOf('What a route changes', 1);
  const remaining = async (path: string): Promise<string | null> =>
    (await fetch(`${url}${path}`)).headers.get('ratelimit-remaining');
  expect(await remaining('/health')).toBeNull();
  expect(await remaining('/items')).toBe('19');
  expect(await remaining('/search')).toBe('14');
  expect(await remaining('/items')).toBe('13');
});

it('counts failed logins only, however many come at once', async () => {
  const url = serverOf('Logins: count failures only');
  const login = (account: string, password: string): Promise<Response> =>
    fetch(`${url}/login`, { method: 'POST', body: new URLSearchParams({ account, password }) });
  const right = Array.from({ length: 20 }, () => login('ada', 'lovelace'));
  expect(await statusesOf(right)).toEqual(Array.from({ length: 20 }, () => 200));
  const guesses = Array.from({ length: 20 }, () => login('Ada', 'guess'));
  expect(await statusesOf(guesses)).toEqual([
    ...Array.from({ length: 5 }, () => 401),
    ...Array.from({ length: 15 }, () => 429),
  ]);
  expect((await login('ada', 'lovelace')).status).toBe(429);
  expect((await login('grace', 'guess')).status).toBe(401);
});

it('answers refusals in the words of the application', async () => {
  const url = serverOf('Refusals of your own');
  await fetch(url);
  const refused = await fetch(url);
  expect(refused.status).toBe(429);
  const body = (await refused.json()) as { title: string; retryAfterMs: number };
  expect(body.title).toBe('Slow down');
  expect(body.retryAfterMs).toBeGreaterThan(0);
  expect(body.retryAfterMs).toBeLessThanOrEqual(60_000);
  await expect.poll(() => printedLater).toContain('default: / refused');
});

it('names commands and files that there are', () => {
  const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
    scripts: Record<string, string>;
  };
  const commands = [...page.matchAll(/^npm (?:run )?(\w+)/gm)].map(([, name = '']) => name);
  expect(commands).toContain('start');
  const others = commands.filter((name) => name !== 'install');
  expect(others.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
  const links = [...page.matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g)].map(
    ([, path = '']) => path,
  );
  expect(links).toContain('LICENSE');
  // What a measurement writes is there once somebody has measured.
  const written = links.filter((path) => !path.startsWith('bench/'));
  expect(written.filter((path) => !existsSync(`${ROOT}${path}`))).toEqual([]);
});
