import { AssertionError } from 'node:assert';
import { describe, expect, it, test } from 'vitest';
import type { Store } from '../src/store.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import { type ConformanceCase, type ManualClock, storeConformance } from '../src/testing.ts';
import { BAN_BREAKAGES } from './broken-bans.ts';
import { BREAKAGES } from './broken-stores.ts';

/** What the cases of a suite reject with. */
async function violations(cases: readonly ConformanceCase[]): Promise<unknown[]> {
  const results = await Promise.allSettled(cases.map(({ run }) => run()));
  return results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
}

describe('the conformance suite notices a store that', () => {
  test.each([...BREAKAGES, ...BAN_BREAKAGES])('$fault', async ({ law, make }) => {
    const cases = storeConformance({ make }).filter(({ name }) => name.startsWith(law));
    const found = await violations(cases);
    expect(found).not.toHaveLength(0);
    for (const violation of found) expect(violation).toBeInstanceOf(AssertionError);
  });
});

/** What shows in a history whatever it is like. */
const GROSS = [
  'charges what it refuses',
  'rounds waits down to milliseconds',
  'never lets its clock step back',
  'forgets refunds',
  'gives nothing back',
  'resets nothing',
  'says that every slot is held still',
  'forgets what is owed when the policy changes',
];

describe('random histories alone notice a store that', () => {
  const gross = BREAKAGES.filter(({ fault }) => GROSS.includes(fault));

  test.each(gross)('$fault', async ({ make }) => {
    const cases = storeConformance({ make }).filter(({ name }) => name.includes('random history'));
    expect(await violations(cases)).not.toHaveLength(0);
  });
});

describe('a case', () => {
  it('closes the store that it made, also where a law is broken', async () => {
    let open = 0;
    const make = (clock: ManualClock): Store => {
      open++;
      const store = new MemoryStore({ clock });
      // Nothing is ever decided rightly.
      const refused = { tally: () => undefined, mostRefused: () => [] };
      return Object.assign(store, { ...refused, decide: () => open, close: () => void open-- });
    };
    const cases = storeConformance({ make });
    expect(await violations(cases)).toHaveLength(cases.length);
    expect(open).toBe(0);
  });

  it('rejects with what a store throws', async () => {
    const fault = new Error('out of order');
    const store = Object.assign(new MemoryStore(), {
      decide: () => {
        throw fault;
      },
    });
    const [only] = storeConformance({ make: () => store });
    await expect(only?.run()).rejects.toBe(fault);
  });

  it('rejects with what a store fails at behind a settlement', async () => {
    const fault = new Error('out of order');
    const cases = storeConformance({
      make: (clock) =>
        Object.assign(new MemoryStore({ clock }), {
          correct: () => {
            throw fault;
          },
        }),
    });
    const settled = cases.find(({ name }) => name.startsWith('a store frees a slot'));
    await expect(settled?.run()).rejects.toBe(fault);
  });
});
