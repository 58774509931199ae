import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { parseDuration } from '../src/duration.ts';
import { TollgateConfigError } from '../src/errors.ts';

const DAY_MS = 86_400_000;
const LONGEST_US = 400 * DAY_MS * 1_000;

describe('a duration', () => {
  test.each([
    [1, 1],
    [250, 250],
    [0.001, 0.001],
    [2.5, 2.5],
    ['1ms', 1],
    ['250ms', 250],
    ['10s', 10_000],
    ['10 s', 10_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1d', DAY_MS],
    ['30d', 30 * DAY_MS],
    ['365d', 365 * DAY_MS],
    ['400d', 400 * DAY_MS],
    ['0.5s', 500],
    ['1.005s', 1_005],
    ['0.25 ms', 0.25],
    ['010s', 10_000],
  ])('%j is %d ms', (text, ms) => expect(parseDuration(text, 'per')).toBe(ms));

  test.each([
    [0, 'per: expected a duration above 0, got 0'],
    [-0, 'per: expected a duration above 0, got 0'],
    [-1, 'per: expected a duration above 0, got -1'],
    ['0s', 'per: expected a duration above 0, got "0s" (string)'],
    [-Infinity, 'per: expected a duration above 0, got -Infinity'],
    [Infinity, 'per: expected at most 400 days, got Infinity'],
    [400 * DAY_MS + 1, 'per: expected at most 400 days, got 34560000001'],
    ['401d', 'per: expected at most 400 days, got "401d" (string)'],
    [1_000 / 300, /^per: expected a whole number of microseconds, got 3\.33.*nearest is 3\.333 /],
    ['0.0001ms', /^per: expected a whole number of microseconds.*nearest is 0\.001 /],
  ])('%j is refused', (value, message) => {
    expect(() => parseDuration(value, 'per')).toThrow(TollgateConfigError);
    expect(() => parseDuration(value, 'per')).toThrow(message);
  });

  const texts = ['', ' ', '10', '10 ', ' 10s', '10s ', '10  s', '10S', '10 sec', '1w', '1y', '-1s'];
  const more = ['+1s', '1e3ms', '.5s', '5.s', '1,5s', '1s 5ms', '١٠s', '10s\n', 's', 'ten seconds'];
  const values = [Number.NaN, null, undefined, true, {}, [], ['10s'], 10n, new Date(0), Number];
  test.each([...texts, ...more, ...values].map((value) => ({ value })))(
    '$value is no duration',
    ({ value }) => {
      expect(() => parseDuration(value, 'per')).toThrow(
        /^per: expected a duration, a number of milliseconds or text like "10s", got /,
      );
    },
  );

  it('names the option and the value, however long', () => {
    const error = (() => {
      try {
        return parseDuration('x'.repeat(10_000), 'limits[3].policy.window');
      } catch (caught) {
        return caught;
      }
    })();
    expect(error).toBeInstanceOf(TypeError);
    expect(error).toMatchObject({ path: 'limits[3].policy.window', code: 'TOLLGATE_CONFIG' });
    expect(String(error).length).toBeLessThan(200);
  });
});

it('takes any whole number of microseconds up to 400 days, and gives what it takes again', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: LONGEST_US }), (us) => {
      const ms = parseDuration(us / 1_000, 'per');
      expect(Math.round(ms * 1_000)).toBe(us);
      expect(parseDuration(ms, 'per')).toBe(ms);
      expect(parseDuration(JSON.parse(JSON.stringify(ms)), 'per')).toBe(ms);
    }),
    { numRuns: 4_000 },
  );
});
