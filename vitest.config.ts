import { configDefaults, defineConfig } from 'vitest/config';

const conditions = ['@tollgate/source', 'module', 'node', 'development|production'];

/** Other versions than those installed, by the names that tests import them under: scripts/versions.mjs. */
const others = JSON.parse(process.env['TOLLGATE_VERSIONS'] ?? '{}') as Record<string, string>;
const alias = Object.entries(others).map(([name, replacement]) => ({
  find: new RegExp(`^${name}$`),
  replacement,
}));

// Those that take long, want the machine to themselves, need a registry to install from, or want a Chromium.
const exclude = [
  ...configDefaults.exclude,
  ...(process.env['TOLLGATE_SOAK'] === undefined ? ['test/soak/**'] : []),
  ...(process.env['TOLLGATE_INSTALLED'] === undefined ? ['test/installed/**'] : []),
  ...(process.env['TOLLGATE_BROWSER'] === undefined ? ['test/browser/**'] : []),
];
const core = 'packages/core/test/**/*.test.ts';
// They stop time, for whoever comes next too when modules are shared.
const stopped =
  'packages/core/test/{concurrency,deadlines,memory-store,refusals,shedder,waiting*}.test.ts';
const http = 'test/http/**/*.test.ts';

export default defineConfig({
  resolve: { conditions, alias },
  ssr: { resolve: { conditions } },
  test: {
    exclude,
    setupFiles: ['test/seed.ts'],
    // Many files wait for servers more than they reckon.
    maxWorkers: 3,
    testTimeout: 60_000,
    // What is looked at until it is so comes late on a busy machine. A test of how soon says so itself.
    expect: { poll: { timeout: 10_000 } },
    reporters: ['default', './scripts/plain-reporter.ts'],
    // Many small files share their modules, which halves their time.
    projects: [
      {
        extends: true,
        test: { name: 'core', include: [core], exclude: [...exclude, stopped], isolate: false },
      },
      { extends: true, test: { name: 'http', include: [http], isolate: false } },
      {
        extends: true,
        test: {
          name: 'whole',
          include: [stopped, 'packages/!(core)/test/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...exclude, http],
        },
      },
    ],
  },
});
