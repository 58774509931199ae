import { defineConfig } from 'tsdown';

export default defineConfig({
  workspace: 'packages/*',
  entry: 'src/{index,redis,testing,prometheus,opentelemetry,cli}.ts',
  format: ['esm', 'cjs'],
  platform: 'node',
  target: 'node20',
  dts: { sourcemap: true },
  sourcemap: true,
  outputOptions: { exports: 'named' },
  publint: { strict: true },
  attw: { profile: 'node16', level: 'error' },
});
