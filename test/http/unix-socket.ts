import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A path to listen on, gone when the test is over. */
export function temporarySocket(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'http.sock');
}
