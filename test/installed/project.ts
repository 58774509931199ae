import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { environment } from '../../scripts/environment.mjs';

const { NODE_PATH: _, ...env } = environment;
const execute = promisify(execFile);

/** Runs a command in a folder and returns what it printed; what it printed is in the error, too. */
export async function run(cwd: string, command: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await execute(command, args, { cwd, env, timeout: 300_000 });
    return stdout.trim();
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error });
  }
}

/** Makes a folder with nothing in it but what npm installs. */
export async function install(folder: string, packages: readonly string[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  await run(folder, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', ...packages);
}

export function isInstalled(folder: string, name: string): boolean {
  return existsSync(join(folder, 'node_modules', name));
}

/** How TypeScript is told to find packages, and as which modules it reads programs. A bundler's are all ES modules. */
export interface Way {
  readonly resolution: 'nodenext' | 'node16' | 'bundler';
  readonly form: 'mts' | 'cts';
}

/**
 * Fails to compile where an entry exports `any`, or a function that takes or returns it, or an object that holds it.
 * An import whose types are missing is `any` as well, without an error where libraries are not checked.
 */
function noAny(entry: string): string {
  return `import * as entry from '${entry}';
type IsAny<T> = 0 extends 1 & T ? true : false;
type Has<T> = true extends { [K in keyof T]: IsAny<T[K]> }[keyof T] ? true : false;
type Bad<T> = IsAny<T> extends true ? true
  : T extends (...args: infer A) => infer R ? (true extends IsAny<R> | IsAny<A[number]> | Has<R> | Has<A[0]> ? true : false)
  : T extends object ? Has<T> : false;
type Offenders<M> = { [K in keyof M]: Bad<M[K]> extends true ? K : never }[keyof M];
export const none: [Offenders<typeof entry>] extends [never] ? true : Offenders<typeof entry> = true;
`;
}

/** Writes what is compiled into a project: its program, and a check of its entries, as either kind of module. */
export function writePrograms(folder: string, program: string, entries: readonly string[]): void {
  const file = fileURLToPath(new URL(`programs/${program}.ts`, import.meta.url));
  for (const form of ['mts', 'cts']) {
    writeFileSync(join(folder, `${program}.${form}`), readFileSync(file, 'utf8'));
    for (const [index, entry] of entries.entries()) {
      writeFileSync(join(folder, `none-${index}.${form}`), noAny(entry));
    }
  }
}

/** How a compiler, by the path of its `tsc`, is to compile. */
export interface Compilation {
  readonly compiler: string;
  readonly way: Way;
  /** Whether to write JavaScript, beside the programs. */
  readonly emit?: boolean;
}

/** Compiles all programs in a folder and those below, each with the packages that are installed where it is. */
export async function compile(folder: string, compilation: Compilation): Promise<void> {
  const { compiler, way, emit = false } = compilation;
  const { resolution, form } = way;
  const settings = {
    compilerOptions: {
      target: 'es2022',
      lib: ['es2022'],
      types: ['node'],
      module: resolution === 'bundler' ? 'preserve' : resolution,
      moduleResolution: resolution,
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      // What the packages declare, and what they take from others, is checked too.
      skipLibCheck: false,
      noEmit: !emit,
    },
    include: [`**/*.${form}`],
    exclude: ['**/node_modules'],
  };
  const file = `tsconfig.${resolution}.${form}.json`;
  writeFileSync(join(folder, file), JSON.stringify(settings));
  await run(folder, process.execPath, compiler, '-p', file);
}
