import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Rolldown } from 'tsdown';

interface Outcome {
  readonly code: number | null;
  readonly stderr: string;
  /** What the script printed last, read as JSON. */
  readonly result: Readonly<Record<string, number>>;
  /** How long the process lived on after that. */
  readonly afterMs: number;
}

/** Runs scripts that use core in processes of their own, where nothing else keeps time or memory busy. */
export class OwnProcess {
  private readonly folder: string;
  private readonly core: string;

  private constructor(folder: string, core: string) {
    this.folder = folder;
    this.core = core;
  }

  /** Makes one file of core's source, since a process of its own reads no TypeScript. */
  static async prepare(): Promise<OwnProcess> {
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-'));
    const file = join(folder, 'core.mjs');
    const bundle = await Rolldown.rolldown({
      input: fileURLToPath(new URL('../src/index.ts', import.meta.url)),
      platform: 'node',
      logLevel: 'silent',
    });
    await bundle.write({ file, format: 'esm', codeSplitting: false });
    await bundle.close();
    return new OwnProcess(folder, pathToFileURL(file).href);
  }

  /** Runs a module's text in which `core` is the package. It prints its result as the last thing it does. */
  async run(script: string, flags: readonly string[] = []): Promise<Outcome> {
    const text = `import * as core from ${JSON.stringify(this.core)};\n${script}`;
    const child = spawn(process.execPath, [...flags, '--input-type=module', '-e', text]);
    let stdout = '';
    let stderr = '';
    let printedAt = 0;
    child.stdout.on('data', (chunk) => {
      stdout += String(chunk);
      printedAt = performance.now();
    });
    child.stderr.on('data', (chunk) => (stderr += String(chunk)));
    const [code] = (await once(child, 'close')) as [number | null];
    const afterMs = performance.now() - printedAt;
    const lines = stdout.trim().split('\n');
    return { code, stderr, afterMs, result: JSON.parse(lines.at(-1) || '{}') as Outcome['result'] };
  }

  async clear(): Promise<void> {
    await rm(this.folder, { recursive: true });
  }
}
