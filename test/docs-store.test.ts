import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Store } from '@tollgate/core';
import { storeConformance } from '@tollgate/core/testing';
import { afterAll, describe, test } from 'vitest';
import { blocksOf } from './readme/blocks.ts';
import { ROOT } from './readme/built.ts';

const PAGE = 'docs/writing-a-store.md';
const shown = blocksOf(readFileSync(ROOT + PAGE, 'utf8')).find(({ code }) =>
  code.includes('export class MapStore'),
);
const folder = mkdtempSync(`${ROOT}test/node_modules/.docs-store-`);
writeFileSync(`${folder}/map-store.ts`, shown?.code ?? '');
afterAll(() => rmSync(folder, { recursive: true }));

const { MapStore } = (await import(`${folder}/map-store.ts`)) as {
  MapStore: new (clock: () => number) => Store;
};

describe('the store that the page on writing one shows', () => {
  for (const { name, run } of storeConformance({ make: (clock) => new MapStore(clock) })) {
    test(name, run);
  }
});
