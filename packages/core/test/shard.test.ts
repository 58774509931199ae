import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Rule } from '../src/algorithm.ts';
import { ruleOf } from '../src/algorithms/index.ts';
import { fixedWindow } from '../src/policy.ts';
import { Shard } from '../src/stores/table.ts';

const RULES = [1, 2, 3].map((limit) => ruleOf(fixedWindow({ limit, window: '1m' })));
const WIDTH = 4;

const step = fc.record({
  key: fc.integer({ min: 0, max: 20 }).map((number) => `key${number}`),
  // Mostly the first, as where most keys have one policy.
  rule: fc.constantFrom(RULES[0], RULES[0], RULES[0], RULES[1], RULES[2]) as fc.Arbitrary<Rule>,
  leaves: fc.boolean(),
});

describe('a shard', () => {
  it('knows by which rule each state was written, and the state, however keys come and go', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const shard = new Shard(WIDTH);
        const known = new Map<string, { rule: Rule; state: number[] }>();
        for (const [count, { key, rule, leaves }] of steps.entries()) {
          const slot = shard.find(key);
          if (leaves && slot !== -1) {
            shard.remove(slot);
            known.delete(key);
          } else {
            const state = [count, 1, 2, 3];
            shard.write(slot === -1 ? shard.append(key) : slot, rule, state);
            known.set(key, { rule, state });
          }
        }
        expect([...shard.keys].sort()).toEqual([...known.keys()].sort());
        for (const [key, { rule, state }] of known) {
          const slot = shard.find(key);
          expect(shard.rule(slot)).toBe(rule);
          expect(shard.read(slot, [0, 0, 0, 0])).toEqual(state);
        }
      }),
    );
  });
});
