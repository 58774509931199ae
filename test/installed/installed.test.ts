import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packAll } from '../packages/packed.ts';
import { compile, install, isInstalled, run, type Way, writePrograms } from './project.ts';

/** A project of somebody who uses a package, with what it needs and no more. */
interface Project {
  readonly packages: readonly string[];
  readonly others: readonly string[];
  /** The entries that it takes. */
  readonly entries: readonly string[];
  /** What its program prints. */
  readonly prints: unknown;
}

const CORE = '@tollgate/core';
const PROJECTS: Readonly<Record<string, Project>> = {
  core: {
    packages: ['core'],
    others: [],
    entries: [CORE, `${CORE}/redis`, `${CORE}/testing`],
    prints: [true, true, false, 'TollgateConfigError', 'function', 'function'],
  },
  redis: {
    packages: ['core'],
    others: ['ioredis', 'iovalkey', 'redis'],
    entries: [`${CORE}/redis`],
    prints: Array.from({ length: 5 }, () => 'fallback'),
  },
  metrics: {
    packages: ['core'],
    others: ['prom-client', '@opentelemetry/api'],
    entries: [`${CORE}/prometheus`, `${CORE}/opentelemetry`],
    prints: [true],
  },
  fastify: {
    packages: ['core', 'fastify'],
    others: ['fastify'],
    entries: ['@tollgate/fastify'],
    prints: [200, 200, 429, 7],
  },
  express: {
    packages: ['core', 'express'],
    others: ['express', '@types/express'],
    entries: ['@tollgate/express'],
    prints: [3, 0, 429],
  },
  fetch: {
    packages: ['core', 'fetch'],
    others: [],
    entries: ['@tollgate/fetch'],
    prints: [200, 2],
  },
  dashboard: {
    packages: ['core', 'dashboard'],
    others: [],
    entries: ['@tollgate/dashboard'],
    prints: [200, 403],
  },
  cli: { packages: ['core', 'cli'], others: [], entries: ['@tollgate/cli'], prints: [3, 2] },
};
const COMPILERS = ['5.4', '5.9', '6.0', '7.0'];
const WAYS: readonly Way[] = [
  { resolution: 'nodenext', form: 'mts' },
  { resolution: 'nodenext', form: 'cts' },
  { resolution: 'node16', form: 'mts' },
  { resolution: 'node16', form: 'cts' },
  { resolution: 'bundler', form: 'mts' },
];
/** Optional peers, and what nobody needs. */
const OPTIONAL = ['ioredis', 'iovalkey', 'redis', 'prom-client', '@opentelemetry/api', 'fastify'];

let folder: string;

const at = (name: string): string => join(folder, name);
const compiler = (version: string): string =>
  at(join('node_modules', `ts${version}`, 'bin', 'tsc'));

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-installed-')));
  const packed = packAll(folder);
  rmSync(at('node_modules'), { recursive: true });
  const compilers = COMPILERS.map((version) => `ts${version}@npm:typescript@~${version}.0`);
  await install(folder, [...compilers, '@types/node@20']);
  for (const [name, { packages, others, entries }] of Object.entries(PROJECTS)) {
    const tarballs = packed
      .filter((each) => packages.some((own) => each.name === `@tollgate/${own}`))
      .map(({ tarball }) => tarball);
    await install(at(name), [...tarballs, ...others]);
    // All projects are compiled in one go, so that there may be only one copy of what is global.
    rmSync(at(join(name, 'node_modules/@types/node')), { recursive: true, force: true });
    writePrograms(at(name), name, entries);
  }
}, 900_000);

afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
}, 100_000);

describe.each(Object.entries(PROJECTS))('a project with %s', (name, project) => {
  it('has what it needs, and no more', () => {
    const needless = OPTIONAL.filter((each) => !project.others.includes(each));
    expect(needless.filter((each) => isInstalled(at(name), each))).toEqual([]);
    for (const own of project.packages) {
      expect(isInstalled(at(name), `@tollgate/${own}`)).toBe(true);
      // One core for all, not one for each that needs it.
      expect(isInstalled(at(join(name, 'node_modules/@tollgate', own)), CORE)).toBe(false);
    }
  });
});

describe.each(COMPILERS)('TypeScript %s', (version) => {
  it.each(WAYS.map((way) => [way.resolution, way.form, way] as const))(
    'compiles every project under %s as .%s',
    async (_resolution, _form, way) => {
      await compile(folder, { compiler: compiler(version), way });
    },
  );
});

it.each(['mts', 'cts'] as const)('runs what comes of .%s', async (form) => {
  const way = { resolution: 'nodenext', form } as const;
  await compile(folder, { compiler: compiler('7.0'), way, emit: true });
  for (const [name, { prints }] of Object.entries(PROJECTS)) {
    const printed = await run(at(name), process.execPath, `${name}.${form.replace('t', 'j')}`);
    expect([name, JSON.parse(printed)]).toEqual([name, prints]);
  }
});

it('starts the command line through npx', async () => {
  const help = await run(at('cli'), 'npx', '--no-install', 'tollgate', '--help');
  expect(help).toContain('tollgate replay');
});
