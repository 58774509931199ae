import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { build, ROOT } from '../readme/built.ts';

/** What both kinds of module load: themselves, and the other kind. */
const LOADED = {
  cjs: `const own = (name) => require(name);
const other = (name) => import(name);`,
  mjs: `import { createRequire } from 'node:module';
const own = (name) => import(name);
const other = createRequire(import.meta.url);`,
};

/** Counts with what one kind of module loads what limiters of both kinds decide. */
const SCRIPT = `
const main = async () => {
  const { Registry } = await own('prom-client');
  const { MeterProvider, MetricReader } = await own('@opentelemetry/sdk-metrics');
  const { collectPrometheus } = await own('@tollgate/core/prometheus');
  const { observeOpenTelemetry } = await own('@tollgate/core/opentelemetry');
  const register = new Registry();
  class Reader extends MetricReader {
    async onShutdown() {}
    async onForceFlush() {}
  }
  const reader = new Reader();
  const stops = [
    collectPrometheus({ register }),
    observeOpenTelemetry({ meter: new MeterProvider({ readers: [reader] }).getMeter('test') }),
  ];
  const copies = [await own('@tollgate/core'), await other('@tollgate/core')];
  const limiters = copies.map(({ createLimiter, fixedWindow }) =>
    createLimiter({ limits: [{ name: 'ip', policy: fixedWindow({ limit: 2, window: '1d' }) }] }),
  );
  const use = () => limiters.forEach((limiter) => limiter.consume({ ip: 'a' }));
  use();
  const scraped = await register.getSingleMetric('tollgate_decisions_total').get();
  const { resourceMetrics } = await reader.collect();
  const read = resourceMetrics.scopeMetrics
    .flatMap(({ metrics }) => metrics)
    .find(({ descriptor }) => descriptor.name === 'tollgate.memory.keys');
  for (const stop of stops) stop();
  const { channel } = await own('node:diagnostics_channel');
  console.log(JSON.stringify({
    copies: new Set(copies.map(({ createLimiter }) => createLimiter)).size,
    scraped: scraped.values.map(({ value }) => value),
    read: read.dataPoints.map(({ value }) => value),
    heard: channel('tollgate:decision').hasSubscribers,
  }));
};
main();
`;

beforeAll(build, 180_000);

it.each(['cjs', 'mjs'] as const)('counts from .%s what either kind decides', async (kind) => {
  // Modules find packages from where they stand, and nobody commits what is in node_modules.
  const folder = mkdtempSync(`${ROOT}test/node_modules/.metrics-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(`${folder}/count.${kind}`, `${LOADED[kind]}\n${SCRIPT}`);
  const { stdout } = await promisify(execFile)(process.execPath, [`${folder}/count.${kind}`], {
    timeout: 30_000,
  });
  expect(JSON.parse(stdout)).toEqual({ copies: 2, scraped: [2], read: [2], heard: false });
});
