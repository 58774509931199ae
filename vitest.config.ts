import { configDefaults, defineConfig } from 'vitest/config';

const conditions = ['@tollgate/source', 'module', 'node', 'development|production'];

/** Other versions than those installed, by the names that tests import them under: scripts/versions.mjs. */
const others = JSON.parse(process.env['TOLLGATE_VERSIONS'] ?? '{}') as Record<string, string>;
const alias = Object.entries(others).map(([name, replacement]) => ({
  find: new RegExp(`^${name}$`),
  replacement,
}));

export default defineConfig({
  resolve: { conditions, alias },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    // Those that take long, want the machine to themselves, or want a Chromium.
    exclude: [
      ...configDefaults.exclude,
      ...(process.env['TOLLGATE_SOAK'] === undefined ? ['test/soak/**'] : []),
      // What needs a registry to install from.
      ...(process.env['TOLLGATE_INSTALLED'] === undefined ? ['test/installed/**'] : []),
      ...(process.env['TOLLGATE_BROWSER'] === undefined ? ['test/browser/**'] : []),
    ],
    setupFiles: ['test/seed.ts'],
    // Files share modules, which halves the time; those that change what is global undo it themselves.
    isolate: false,
    // Many files wait for servers more than they reckon.
    maxWorkers: 3,
    testTimeout: 60_000,
    // What is looked at until it is so comes late on a busy machine. A test of how soon says so itself.
    expect: { poll: { timeout: 10_000 } },
    reporters: ['default', './scripts/plain-reporter.ts'],
  },
});
