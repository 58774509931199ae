import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../readme/built.ts';
import { readManifest } from './packed.ts';

const HOME = 'https://github.com/tollgate/tollgate';
const NAMES = readdirSync(`${ROOT}packages`);
const { engines, scripts, license } = readManifest(ROOT);

describe.each(NAMES)('the manifest of %s', (name) => {
  const manifest = readManifest(`${ROOT}packages/${name}`);

  it('says what the others say', () => {
    expect(manifest).toMatchObject({
      name: `@tollgate/${name}`,
      // Released together.
      version: readManifest(`${ROOT}packages/core`).version,
      homepage: `${HOME}/tree/main/packages/${name}#readme`,
      bugs: `${HOME}/issues`,
      license,
      repository: { type: 'git', url: `git+${HOME}.git`, directory: `packages/${name}` },
      type: 'module',
      sideEffects: false,
      publishConfig: { access: 'public', provenance: true },
      engines,
    });
    expect(manifest.keywords).toEqual(expect.arrayContaining(['rate-limit', 'rate-limiter']));
    expect(manifest.keywords).toEqual(manifest.keywords.toSorted());
    expect(manifest.description).toMatch(/^[A-Z].{20,100}[^.]$/);
  });

  it('gives every entry its types and both kinds of module', () => {
    for (const [entry, target] of Object.entries(manifest.exports)) {
      if (typeof target === 'string') {
        expect(existsSync(`${ROOT}packages/${name}/${target}`)).toBe(true);
        continue;
      }
      const base = entry === '.' ? 'index' : entry.slice(2);
      const source = `./src/${base}.ts`;
      expect(existsSync(`${ROOT}packages/${name}/${source}`)).toBe(true);
      const way = (letter: string): object => ({
        types: `./dist/${base}.d.${letter}ts`,
        default: `./dist/${base}.${letter}js`,
      });
      // The first that applies is taken, so their order counts.
      expect(JSON.stringify(target)).toBe(
        JSON.stringify({ '@tollgate/source': source, import: way('m'), require: way('c') }),
      );
    }
  });

  it('makes every peer but a framework optional', () => {
    const { peerDependencies = {}, peerDependenciesMeta = {} } = manifest;
    const needed = Object.keys(peerDependencies).filter(
      (peer) => peerDependenciesMeta[peer]?.optional !== true,
    );
    expect(needed).toEqual(['fastify', 'express'].filter((framework) => framework === name));
  });

  it('has a page that begins with its name', () => {
    const page = readFileSync(`${ROOT}packages/${name}/README.md`, 'utf8');
    expect(page.startsWith(`# @tollgate/${name}\n`)).toBe(true);
    expect(page).toMatch(/^npm install |^npx /m);
  });
});

it('lets changesets release all packages together, for everybody', () => {
  const config = JSON.parse(readFileSync(`${ROOT}.changeset/config.json`, 'utf8')) as object;
  expect(config).toMatchObject({ access: 'public', fixed: [['@tollgate/*']], baseBranch: 'main' });
});

it('tells on a page which versions packages allow, and that the oldest and the newest were run', () => {
  const page = readFileSync(`${ROOT}docs/versions.md`, 'utf8').replaceAll('\\|', '|');
  const rows = [...page.matchAll(/^\| `(\S+)`.*?`(.*?)` +\| (.*?) *\|$/gm)];
  const told = rows.map(([, name = '', range = '']) => [name, range]);
  const allowed = NAMES.flatMap((name) =>
    Object.entries(readManifest(`${ROOT}packages/${name}`).peerDependencies ?? {}),
  );
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(allowed));
  for (const [, name = '', range = '', versions = ''] of rows) {
    const oldest = range.split(' || ').map((part) => part.slice(1));
    const newest = readManifest(`${ROOT}test/node_modules/${name}`).version;
    expect(versions.split(', ')).toEqual(expect.arrayContaining([oldest[0], newest]));
  }
});

it.each(['CONTRIBUTING.md', '.changeset/README.md'])('%s names scripts that there are', (page) => {
  const text = readFileSync(ROOT + page, 'utf8');
  const named = [...text.matchAll(/`?npm (?:run )?([a-z][\w:-]*)/g)].map(([, name = '']) => name);
  const own = named.filter((name) => name !== 'audit');
  expect(own.length).toBeGreaterThan(0);
  expect(own.filter((name) => !Object.hasOwn(scripts ?? {}, name))).toEqual([]);
});
