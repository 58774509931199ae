import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { environment } from '../../scripts/environment.mjs';
import { build, ROOT } from '../readme/built.ts';

/** What an entry of `exports` says for one way to load it. */
interface Condition {
  readonly types: string;
  readonly default: string;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly keywords: readonly string[];
  readonly homepage: string;
  readonly bugs: string;
  readonly license: string;
  readonly repository: { readonly url: string; readonly directory: string };
  readonly bin?: Record<string, string>;
  readonly files: readonly string[];
  readonly type: string;
  readonly sideEffects: boolean;
  readonly scripts?: Record<string, string>;
  readonly exports: Record<
    string,
    string | { readonly import: Condition; readonly require: Condition }
  >;
  readonly publishConfig: { readonly access: string; readonly provenance: boolean };
  readonly dependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
  readonly peerDependenciesMeta?: Record<string, { readonly optional?: boolean }>;
  readonly engines: Record<string, string>;
}

/** A package as it would be published. */
export interface Packed {
  readonly name: string;
  readonly tarball: string;
  /** Where it is unpacked: `node_modules/<name>`, of a folder with nothing else in it. */
  readonly folder: string;
  readonly manifest: Manifest;
  /** Its files, with `/` whatever the system, sorted. */
  readonly files: readonly string[];
}

export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}

/** Builds what is stale, packs every package into a folder, and unpacks it into `node_modules` there. */
export function packAll(into: string): Packed[] {
  build();
  const { packageManager } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
    packageManager: string;
  };
  const arguments_ = ['--yes', packageManager, '--recursive', '--filter', './packages/*', 'pack'];
  execFileSync('npx', [...arguments_, '--pack-destination', into], {
    cwd: ROOT,
    env: environment,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  });
  const tarballs = readdirSync(into).filter((file) => file.endsWith('.tgz'));
  return tarballs.map((file) => {
    const tarball = join(into, file);
    const name = file.replace(/^tollgate-(\w+)-.*$/, '@tollgate/$1');
    const folder = join(into, 'node_modules', name);
    mkdirSync(folder, { recursive: true });
    execFileSync('tar', ['-xzf', tarball, '-C', folder, '--strip-components', '1']);
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name: base }) => join(parentPath, base).slice(folder.length + 1))
      .map((path) => path.replaceAll('\\', '/'))
      .toSorted();
    return { name, tarball, folder, manifest: readManifest(folder), files };
  });
}
