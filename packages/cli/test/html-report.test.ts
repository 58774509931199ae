import { parseLimits } from '@tollgate/core';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { replay } from '../src/index.ts';
import { htmlReport } from '../src/report/html.ts';
import { textReport } from '../src/report/text.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-html-'));
afterAll(() => rmSync(folder, { recursive: true }));

const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img/src=x/onerror=alert(1)>',
  "'onmouseover='alert(1)",
  '</style><svg/onload=alert(1)>',
  '&lt;script&gt;',
  '\u001B]0;title\u0007\u001B[2J',
  '\u202Egnp.exe',
  '{{constructor.constructor("x")()}}',
];

const clf = (address: string, path: string): string =>
  `${address} - - [10/Oct/2026:00:00:00 +0000] "GET ${path} HTTP/1.1" 200 1`;

async function report(): Promise<{ html: string; text: string }> {
  const path = join(folder, "a'<b>&.log");
  const lines = HOSTILE.flatMap((text) => [
    clf(text, '/'),
    clf(text, '/'),
    clf('::1', `/${text.replaceAll('"', '\\"')}`),
    clf('::1', `/${text.replaceAll('"', '\\"')}`),
    text,
    JSON.stringify({ time: 1_791_590_400_000, method: text, url: text, ip: text, tenant: text }),
    JSON.stringify({ time: 1_791_590_400_000, method: text, url: text, ip: text, tenant: text }),
  ]);
  writeFileSync(path, lines.join('\n'));
  const policy = { algorithm: 'fixed-window', limit: 1, window: '1h' };
  const limits = parseLimits(
    JSON.stringify({
      limits: [
        { name: 'address', policy },
        { name: 'both', by: ['ip', 'route'], policy, mode: 'shadow' },
        { name: 'tenant', by: { field: 'tenant' }, policy },
        { name: 'matched', policy, match: { path: '/<script>' } },
      ],
    }),
  );
  const told = await replay([path], { limits, compare: true, top: 100 });
  expect(told.limits[0]?.top.map(({ key }) => key)).toContain(HOSTILE[0]);
  expect(told.firstBadLines).not.toEqual([]);
  return { html: htmlReport(told), text: textReport(told) };
}

/** The tags of a page, by the rules of HTML for text without scripts: `<` and a letter, up to `>`. */
function tagsOf(html: string): string[] {
  return [...html.matchAll(/<\/?[a-z!][^>]*>/gi)].map(([tag]) => tag);
}

it('shows nothing of a log or a limits file as markup', async () => {
  const { html } = await report();
  const names = new Set(tagsOf(html).map((tag) => /^<\/?([a-z!]+\d?)/i.exec(tag)?.[1]));
  const known =
    '!doctype html head meta title style body header h1 h2 p br dl div dt dd small figure figcaption span svg g rect main section ol ul li code';
  expect([...names].filter((name) => !known.split(' ').includes(name ?? ''))).toEqual([]);
  for (const tag of tagsOf(html)) expect(tag).not.toMatch(/\son\w+\s*=|\shref|\ssrc|javascript:/i);
  // One style and one title, each closed once: nothing has broken out of them.
  for (const name of ['style', 'title>Replay', 'body']) {
    expect(html.split(`<${name}`).length).toBe(2);
  }
  expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  expect(html).toContain('&amp;lt;script&amp;gt;');
  expect(html).toContain("default-src 'none'");
  expect(html).not.toMatch(/https?:\/\//);
});

it('lets no control character through, to a page or to a terminal', async () => {
  const { html, text } = await report();
  for (const said of [html, text]) {
    expect(said.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(said).toContain('\\u001b');
    expect(said).toContain('\\u202e');
  }
});
