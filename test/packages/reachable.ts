import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import type { Manifest } from './packed.ts';

/** A file that another one loads, or whose types it takes, or whose source map it names. */
const NAMED = /(?:from|import|require\()\s*\(?["'](\.[^"']+)["']|^\/\/# sourceMappingURL=(.+)$/gm;

/** A declaration is named as the module that it declares. */
function declared(file: string, folder: string): string {
  const declaration = file.replace(/\.([mc])js$/, '.d.$1ts');
  return existsSync(join(folder, declaration)) ? declaration : file;
}

/** The built files that a package leads to from its `exports` and commands, sorted; those that are missing too. */
export function reachable(folder: string, { exports, bin = {} }: Manifest): string[] {
  const starts = Object.values(exports).flatMap((target) => {
    if (typeof target === 'string') return [];
    return [target.import, target.require].flatMap((way) => [way.types, way.default]);
  });
  const waiting = [...starts, ...Object.values(bin)].map((file) => posix.normalize(file));
  const found = new Set<string>();
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    const path = join(folder, file);
    if (!existsSync(path) || file.endsWith('.map')) continue;
    for (const [, module, map] of readFileSync(path, 'utf8').matchAll(NAMED)) {
      const named = posix.join(posix.dirname(file), module ?? map ?? '');
      waiting.push(/\.d\.[mc]ts$/.test(file) && module ? declared(named, folder) : named);
    }
  }
  return [...found].toSorted();
}
