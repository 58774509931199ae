import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { blocksOf } from './readme/blocks.ts';
import { build, ROOT } from './readme/built.ts';
import { RedisServer } from './redis/server.ts';

/** Pages whose every block of JavaScript is a module that ends by itself. */
const PAGES = ['outbound.md', 'overload.md', 'redis.md', 'replay.md'];

/** Stands for the service that is called. */
const provider = createServer((_, response) => response.end('sent'));
let redis: RedisServer;

beforeAll(async () => {
  build();
  redis = await RedisServer.start();
  await once(provider.listen(0, '127.0.0.1'), 'listening');
}, 180_000);

afterAll(async () => {
  provider.close();
  await redis.stop();
});

it.each(PAGES)('%s: every module prints what it says', async (page) => {
  const modules = blocksOf(readFileSync(`${ROOT}docs/${page}`, 'utf8')).filter(
    ({ language }) => language === 'js',
  );
  expect(modules.length).toBeGreaterThan(0);
  // Modules find packages from where they stand, and nobody commits what is in node_modules.
  const folder = mkdtempSync(`${ROOT}test/node_modules/.docs-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [index, { code, printed }] of modules.entries()) {
    const file = `${folder}/${index}.mjs`;
    writeFileSync(file, code);
    const env = {
      ...process.env,
      REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      PROVIDER_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}`,
    };
    const { stdout } = await promisify(execFile)(process.execPath, [file], {
      env,
      timeout: 30_000,
    });
    expect(stdout.split('\n').filter((line) => line !== '')).toEqual(printed);
  }
});
