import { defineConfig } from 'vitest/config';

const conditions = ['@tollgate/source', 'module', 'node', 'development|production'];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    setupFiles: ['test/seed.ts'],
    testTimeout: 60_000,
    reporters: ['default', './scripts/plain-reporter.ts'],
  },
});
