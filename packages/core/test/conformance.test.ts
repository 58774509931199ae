import { describe, expect, it, test } from 'vitest';
import { memoryStore } from '../src/stores/memory.ts';
import { storeConformance } from '../src/testing.ts';
import { PromisedStore } from './promised-store.ts';

describe('the memory store', () => {
  for (const { name, run } of storeConformance({ make: (clock) => memoryStore({ clock }) })) {
    test(name, run);
  }
});

describe('a store that answers with promises', () => {
  for (const { name, run } of storeConformance({ make: (clock) => new PromisedStore({ clock }) })) {
    test(name, run);
  }
});

describe('the suite', () => {
  it('puts its tag before each name, and names no case twice', () => {
    const names = storeConformance({ make: () => memoryStore(), tag: 'mine' }).map(
      ({ name }) => name,
    );
    expect(names.every((name) => name.startsWith('mine: '))).toBe(true);
    expect(new Set(names).size).toBe(names.length);
  });
});
