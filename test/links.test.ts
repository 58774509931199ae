import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from './readme/built.ts';

const SKIPPED = new Set(['node_modules', 'dist', '.git', '.changeset']);

function pagesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (SKIPPED.has(entry.name)) return [];
    const path = resolve(folder, entry.name);
    if (entry.isDirectory()) return pagesIn(path);
    return entry.name.endsWith('.md') ? [path] : [];
  });
}

/** A page without its blocks of code, in which nothing is a link or a heading. */
function prose(path: string): string {
  return readFileSync(path, 'utf8').replaceAll(/^```[\s\S]*?^```$/gm, '');
}

const known = new Map<string, ReadonlySet<string>>();

/** The names by which GitHub lets a page's headings be linked to. */
function anchorsOf(path: string): ReadonlySet<string> {
  const before = known.get(path);
  if (before !== undefined) return before;
  const anchors = new Set<string>();
  known.set(path, anchors);
  for (const [, heading = ''] of prose(path).matchAll(/^#{1,6} +(.*)$/gm)) {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*\\]/g, '');
    const slug = words
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let times = 1; anchors.has(anchor); times++) anchor = `${slug}-${times}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Why a link leads nowhere; undefined when it leads somewhere. */
function faultOf(page: string, link: string): string | undefined {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : resolve(dirname(page), decodeURI(path));
  if (!target.startsWith(ROOT)) return `${link} leads out of the repository`;
  if (!existsSync(target)) return `${link}: there is no such file`;
  if (anchor === undefined || !statSync(target).isFile() || !target.endsWith('.md'))
    return undefined;
  return anchorsOf(target).has(anchor) ? undefined : `${link}: there is no such heading`;
}

const pages = pagesIn(ROOT);

describe('every link within the repository leads somewhere', () => {
  it.each(pages.map((page) => [relative(ROOT, page), page]))('%s', (_name, page) => {
    const text = prose(page);
    const links = [...text.matchAll(/\]\(<?([^)>\s]+)>?(?: "[^"]*")?\)/g)].map(([, to = '']) => to);
    const inside = links.filter((link) => !/^[a-z]+:/.test(link));
    expect(inside.flatMap((link) => faultOf(page, link) ?? [])).toEqual([]);
  });
});

it('the index names every page of docs', () => {
  const index = readFileSync(`${ROOT}docs/README.md`, 'utf8');
  const missing = readdirSync(`${ROOT}docs`).filter(
    (file) => file.endsWith('.md') && file !== 'README.md' && !index.includes(`](${file}`),
  );
  expect(missing).toEqual([]);
});
