import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decimal } from '../src/http/decimal.ts';

it('writes every number below a million as a template does', () => {
  const wrong: number[] = [];
  for (let n = 0; n < 1_000_000; n++) if (decimal(n) !== `${n}`) wrong.push(n);
  expect(wrong).toEqual([]);
});

it('writes any whole number as a template does', () => {
  const aroundPowers = fc
    .tuple(fc.integer({ min: 0, max: 15 }), fc.integer({ min: -3, max: 3 }))
    .map(([power, off]) => Math.max(0, 10 ** power + off));
  const any = fc.oneof(aroundPowers, fc.nat({ max: 2_000_000_000 }), fc.maxSafeNat());
  fc.assert(
    fc.property(any, (n) => {
      expect(decimal(n)).toBe(`${n}`);
    }),
    { numRuns: 10_000 },
  );
});
