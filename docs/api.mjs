// Writes the API reference, docs/api/*.md, from the docstrings of the packages: `node docs/api.mjs`, which takes some
// seconds. With --check it writes nothing and says what is stale.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Application } from 'typedoc';
import { load } from 'typedoc-plugin-markdown';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = `${root}docs/api/`;

/** The entries that users import, and the page of each. Those that export others' again come after them. */
const ENTRIES = {
  'packages/core/src/index.ts': 'core',
  'packages/core/src/redis.ts': 'core-redis',
  'packages/core/src/testing.ts': 'core-testing',
  'packages/core/src/prometheus.ts': 'core-prometheus',
  'packages/core/src/opentelemetry.ts': 'core-opentelemetry',
  'packages/fastify/src/index.ts': 'fastify',
  'packages/express/src/index.ts': 'express',
  'packages/fetch/src/index.ts': 'fetch',
  'packages/dashboard/src/index.ts': 'dashboard',
};

/** Pages whose entry exports all of core beside its own. */
const WITH_CORE = ['fastify', 'express'];

const packageOf = (page) => `@tollgate/${page.replace('core-', 'core/')}`;
const moduleOf = (entry) =>
  entry
    .replace(/^packages\//, '')
    .replace(/\.ts$/, '')
    .replace(/\/index$/, '');

/** The pages by name, written by TypeDoc and made our own. */
async function pages() {
  const out = mkdtempSync(`${tmpdir()}/tollgate-api-`);
  try {
    const app = await Application.bootstrapWithPlugins({
      plugin: [load],
      entryPoints: Object.keys(ENTRIES).map((path) => root + path),
      tsconfig: `${root}tsconfig.json`,
      out,
      readme: 'none',
      name: 'Tollgate',
      // Nothing that changes when the code does not: no commit, no line, no date.
      disableGit: true,
      disableSources: true,
      excludePrivate: true,
      excludeProtected: true,
      excludeExternals: true,
      excludeReferences: true,
      // The type checker is run elsewhere.
      skipErrorChecking: true,
      outputFileStrategy: 'modules',
      hidePageHeader: true,
      hideBreadcrumbs: true,
      useCodeBlocks: true,
      parametersFormat: 'table',
      interfacePropertiesFormat: 'table',
      classPropertiesFormat: 'table',
      typeDeclarationFormat: 'table',
      propertyMembersFormat: 'table',
      tableColumnSettings: { hideInherited: true, hideModifiers: true, hideOverrides: true },
      groupOrder: ['Functions', 'Variables', 'Classes', 'Interfaces', 'Type Aliases'],
      logLevel: 'Warn',
    });
    const project = await app.convert();
    if (project === undefined) throw new Error('TypeDoc cannot read the sources.');
    await app.generateOutputs(project);
    return new Map(
      Object.entries(ENTRIES).map(([entry, page]) => [
        `${page}.md`,
        ours(page, readFileSync(`${out}/${moduleOf(entry)}.md`, 'utf8'), moduleOf(entry)),
      ]),
    );
  } finally {
    rmSync(out, { recursive: true });
  }
}

/** A page under our own names. */
function ours(page, text, module) {
  const files = new Map(
    Object.entries(ENTRIES).map(([entry, name]) => [`${moduleOf(entry)}.md`, `${name}.md`]),
  );
  const linked = text.replaceAll(/\]\(([^)#\s]+\.md)/g, (link, path) => {
    const target = files.get(posix.normalize(posix.join(posix.dirname(`${module}.md`), path)));
    if (target === undefined) throw new Error(`${page}: ${path} is none of the pages.`);
    return `](${target}`;
  });
  const core = WITH_CORE.includes(page)
    ? '\n\nAll of [`@tollgate/core`](core.md) is exported here, too.'
    : '';
  return (
    linked
      .replace(
        /^# .*$/m,
        `# ${packageOf(page)}\n\nWritten by \`npm run docs:api\` from the docstrings.${core}`,
      )
      .replaceAll('__namedParameters', 'options')
      // What the signature says already.
      .replaceAll(/^#+ (?:Get Signature\n\n|Returns\n\n.+\n(?:\n(?=#|\*\*\*)|$))/gm, '')
      .replaceAll(/ +$/gm, '')
  );
}

const written = await pages();
const isStale = ([file, text]) =>
  !existsSync(target + file) || readFileSync(target + file, 'utf8') !== text;
const stale = [...written].filter(isStale).map(([file]) => `docs/api/${file}`);
if (process.argv.includes('--check')) {
  if (stale.length > 0) console.error(`${stale.join(', ')}: stale; run npm run docs:api`);
  process.exitCode = stale.length > 0 ? 1 : 0;
} else {
  mkdirSync(target, { recursive: true });
  for (const [file, text] of written) writeFileSync(target + file, text);
  console.log(stale.length > 0 ? `Written anew: ${stale.join(', ')}` : 'Nothing has changed.');
}
