import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocksOf } from '../readme/blocks.ts';
import { ROOT } from '../readme/built.ts';
import { reachable } from './reachable.ts';
import { type Packed, packAll, readManifest } from './packed.ts';

const NAMES = ['cli', 'core', 'dashboard', 'express', 'fastify', 'fetch'];
/** What packages need beside each other, and where this workspace has it. No client of Redis is among them. */
const NEEDED = [
  ['zod', 'packages/core'],
  ['fastify-plugin', 'packages/fastify'],
  ['fastify', 'test'],
  ['express', 'test'],
] as const;
/** Without where pnpm has commands look for packages, so that only what is installed is found. */
const { NODE_PATH: _, ...env } = process.env;
const execute = promisify(execFile);

/** Runs Node, and returns what it prints. */
async function run(...args: readonly string[]): Promise<string> {
  const { stdout } = await execute(process.execPath, args, { timeout: 60_000, env });
  return stdout.trimEnd();
}

/** Files that stand beside `dist` and `src`. */
const BESIDE = ['LICENSE', 'README.md', 'package.json'];
const MORE: Record<string, readonly string[]> = { '@tollgate/cli': ['limits.schema.json'] };

let folder: string;
let packages: readonly Packed[];

function packed(name: string): Packed {
  const found = packages.find((each) => each.name === name);
  if (found === undefined) throw new Error(`${name} was not packed.`);
  return found;
}

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-packages-')));
  packages = packAll(folder);
  for (const [name, from] of NEEDED) {
    const target = realpathSync(`${ROOT}${from}/node_modules/${name}`);
    symlinkSync(target, join(folder, 'node_modules', name), 'junction');
  }
  for (const file of ['loading.mjs', 'listen-anywhere.mjs']) {
    cpSync(fileURLToPath(new URL(file, import.meta.url)), join(folder, file));
  }
}, 180_000);

afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

describe.each(NAMES.map((name) => `@tollgate/${name}`))('the tarball of %s', (name) => {
  it('holds what is loaded, its sources, and the papers, and nothing else', () => {
    const { folder: unpacked, manifest, files } = packed(name);
    const beside = [...BESIDE, ...(MORE[name] ?? [])].toSorted();
    expect(files.filter((file) => !/^(dist|src)\//.test(file))).toEqual(beside);
    const built = files.filter((file) => file.startsWith('dist/'));
    expect(built).toEqual(reachable(unpacked, manifest));
    const { license } = manifest;
    expect(license).toBe('MIT');
    expect(readFileSync(join(unpacked, 'LICENSE'), 'utf8')).toBe(
      readFileSync(`${ROOT}LICENSE`, 'utf8'),
    );
  });

  it('has source maps that name shipped files', () => {
    const { folder: unpacked, files } = packed(name);
    const named = files.flatMap((file) => {
      if (!file.endsWith('.map')) return [];
      const { sources } = JSON.parse(readFileSync(join(unpacked, file), 'utf8')) as {
        sources: readonly string[];
      };
      return sources.map((source) => join(dirname(file), source).replaceAll('\\', '/'));
    });
    expect(named.filter((source) => !files.includes(source))).toEqual([]);
  });

  it('runs nothing when it is installed, and needs what can be had', () => {
    const { manifest } = packed(name);
    expect(manifest.scripts).toBeUndefined();
    const ranges = { ...manifest.dependencies, ...manifest.peerDependencies };
    for (const [needed, range] of Object.entries(ranges)) {
      const ours = needed.startsWith('@tollgate/');
      expect(range).toMatch(ours ? /^\^\d+\.\d+\.\d+$/ : /^\^\d[\d.]*( \|\| \^\d[\d.]*)*$/);
      if (ours) expect(range).toBe(`^${packed(needed).manifest.version}`);
    }
  });

  it('has no `any` in its types', () => {
    const { folder: unpacked, files } = packed(name);
    const types = files.filter((file) => /\.d\.[mc]ts$/.test(file));
    expect(types.length).toBeGreaterThan(0);
    for (const file of types) {
      const text = readFileSync(join(unpacked, file), 'utf8');
      // Comments and texts, in which it is a word.
      const code = text.replace(/\/\*[^]*?\*\/|\/\/.*|(["'`])(?:\\.|(?!\1)[^\\])*\1/g, '');
      expect([file, ...(code.match(/.*\bany\b.*/g) ?? [])]).toEqual([file]);
    }
  });

  it('runs the example of its page', async () => {
    const page = readFileSync(join(packed(name).folder, 'README.md'), 'utf8');
    const modules = blocksOf(page).filter(({ language }) => language === 'js');
    expect(modules.length).toBeGreaterThan(0);
    for (const [index, { code, printed }] of modules.entries()) {
      const file = join(folder, `${name.slice('@tollgate/'.length)}-${index}.mjs`);
      writeFileSync(file, code);
      if (code.includes('listen(3000')) {
        await askServer(file);
      } else {
        expect((await run(file)).split('\n')).toEqual(printed);
      }
    }
  });
});

/** Runs a page's server, which admits ten and lets a search cost five. */
async function askServer(file: string): Promise<void> {
  const child = fork(file, { env, execArgv: ['--import', join(folder, 'listen-anywhere.mjs')] });
  const ended = once(child, 'exit');
  try {
    const [port] = (await once(child, 'message')) as [number];
    const ask = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`);
    expect(await (await ask('/')).json()).toEqual({ left: 9 });
    expect((await ask('/search')).status).toBe(200);
    expect(await (await ask('/')).json()).toEqual({ left: 3 });
    expect((await ask('/search')).status).toBe(429);
  } finally {
    child.kill();
    await ended;
  }
}

const ENTRIES = NAMES.flatMap((name) =>
  Object.entries(readManifest(`${ROOT}packages/${name}`).exports)
    .filter(([, target]) => typeof target === 'object')
    .map(([entry]) => `@tollgate/${name}${entry.slice(1)}`),
);

/** What comes of a use that works, by entry. The others are loaded only. */
const RESULTS: Record<string, unknown> = {
  '@tollgate/core': [true, true, false],
  '@tollgate/core/redis': ['TollgateConfigError', expect.stringContaining('ioredis')],
  '@tollgate/fastify': [200, 200, 429],
  '@tollgate/express': [200, 200, 429],
  '@tollgate/fetch': [200, 2],
  '@tollgate/dashboard': [200, 403],
  '@tollgate/cli': [2, 3],
};
/** Packages that an entry cannot do without, and that are not there. */
const WANTED: Record<string, string> = {
  '@tollgate/core/prometheus': 'prom-client',
  '@tollgate/core/opentelemetry': '@opentelemetry/api',
};

it.each(['import', 'require'])(
  '%s loads every entry, which then works, and leaves the process alone',
  async (form) => {
    // Ends by itself: nothing that was loaded holds the process.
    const stdout = await run(join(folder, 'loading.mjs'), form, folder, ...ENTRIES);
    const told = stdout.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
    const expected = ENTRIES.map((entry) => {
      const wanted = WANTED[entry];
      if (wanted !== undefined) return { entry, failed: expect.stringContaining(`'${wanted}'`) };
      return { entry, changed: [], ...(entry in RESULTS && { result: RESULTS[entry] }) };
    });
    expect(told).toEqual(expected);
  },
);

it('starts the command line from its tarball', async () => {
  const { folder: unpacked, manifest } = packed('@tollgate/cli');
  const bin = manifest.bin?.['tollgate'];
  expect(bin).toBeDefined();
  expect(await run(join(unpacked, bin ?? ''), '--help')).toContain('tollgate replay');
});
