import fc from 'fast-check';
import {
  type Item,
  parseDictionary,
  parseItem,
  parseList,
  serializeDictionary,
  serializeItem,
  serializeList,
} from 'structured-headers';
import { expect, it } from 'vitest';
import type { Decision } from '../src/decision.ts';
import type { Verdict } from '../src/verdict.ts';
import type { HeaderForm } from '../src/http/headers.ts';
import { concurrency, fixedWindow, gcra, leakyBucket } from '../src/policy.ts';
import { decide, headers, minute, NOW, verdict } from './verdicts.ts';

const RUNS = { numRuns: 2_000 };
const inflight = concurrency({ limit: 8 });
const policies = [
  minute,
  fixedWindow({ limit: 100, window: '1h' }),
  inflight,
  gcra({ rate: 7, per: '1s', burst: 3 }),
  leakyBucket({ capacity: 2 ** 40, rate: 2 ** 40, per: '1s' }),
] as const;

/** Microseconds, as a store counts, in milliseconds. */
const time = fc
  .oneof(fc.integer({ min: 0, max: 3_000_000 }), fc.integer({ min: 0, max: 34_560_000_000_000 }))
  .map((us) => us / 1_000);

const anyVerdict: fc.Arbitrary<Verdict> = fc
  .record({
    name: fc.constantFrom('a', 'b', 'C_3', 'trial-4'),
    policy: fc.constantFrom(...policies),
    remaining: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.nat({ max: Number.MAX_SAFE_INTEGER })),
    nextAfterMs: fc.oneof(time, fc.constant(Infinity)),
    resetAfterMs: time,
    retryAfterMs: fc.oneof(fc.constant(0), time, fc.constant(Infinity)),
    shadow: fc.boolean(),
    source: fc.constantFrom('store', 'lease', 'fallback', 'none'),
    refusal: fc.constantFrom('limited', 'overloaded', 'banned', 'store-unavailable'),
  })
  .map(({ refusal, ...fields }) =>
    verdict({ ...fields, reason: fields.retryAfterMs > 0 ? refusal : 'ok' }),
  );

const anyDecisions = fc.array(
  fc
    .tuple(
      fc.uniqueArray(anyVerdict, { selector: ({ name }) => name, maxLength: 4 }),
      fc.nat({ max: 2_000_000 }),
    )
    .map(([verdicts, us]) => decide(verdicts, NOW + us / 1_000)),
  { maxLength: 3 },
);

const anyForms = fc
  .subarray<HeaderForm>(['x-ratelimit', 'draft-6', 'draft-7', 'draft-11'])
  .filter((forms) => !(forms.includes('draft-7') && forms.includes('draft-11')));

function shown(decisions: readonly Decision[]): Verdict[] {
  return decisions.flatMap(({ verdicts }) => verdicts.filter(({ shadow }) => !shadow));
}

function isCounted({ source, reason }: Verdict): boolean {
  return source !== 'none' && reason !== 'store-unavailable';
}

/** Parses a field whose text must be the one canonical text of its value, so that 5.0 is not taken for 5. */
function parse<T>(text: string, parser: (text: string) => T, serialize: (value: T) => string): T {
  const value = parser(text);
  expect(serialize(value)).toBe(text);
  return value;
}

function parseItems(text: string | undefined): Item[] {
  const items = parse(text ?? '', parseList, serializeList) as Item[];
  expect(items).not.toHaveLength(0);
  // Nothing is listed twice: no limit, and up to -07 no quota.
  expect(new Set(items.map(([value]) => value)).size).toBe(items.length);
  return items;
}

/** Checks an Integer of a structured field, 1 or more where it is seconds. */
function checkInteger(key: string, value: unknown): void {
  expect(value).toSatisfy(Number.isInteger);
  expect(value).toBeGreaterThanOrEqual(/^(t|w|reset|.*-Reset|Retry-After)$/.test(key) ? 1 : 0);
  expect(value).toBeLessThanOrEqual(999_999_999_999_999);
}

it('writes fields of their types, and no zero seconds', () => {
  fc.assert(
    fc.property(anyDecisions, anyForms, (decisions, forms) => {
      const fields = headers(decisions, forms);
      for (const [name, text] of Object.entries(fields)) {
        expect(text).not.toContain('secret');
        if (name === 'Cache-Control') continue;
        if (name === 'RateLimit' && forms.includes('draft-7')) {
          const members = parse(text, parseDictionary, serializeDictionary);
          expect([...members.keys()]).toEqual(['limit', 'remaining', 'reset']);
          for (const [key, [value]] of members) checkInteger(key, value);
        } else if (name === 'RateLimit' || name === 'RateLimit-Policy') {
          for (const [value, parameters] of parseItems(text)) {
            if (!forms.includes('draft-11')) checkInteger('quota', value);
            for (const [key, parameter] of parameters) {
              if (key === 'qu') expect(parameter).toBe('concurrent-requests');
              else checkInteger(key, parameter);
            }
          }
        } else {
          checkInteger(name, parse(text, parseItem, serializeItem)[0]);
        }
      }
      expect('RateLimit-Reset' in fields).toBe('RateLimit-Limit' in fields);
    }),
    RUNS,
  );
});

it('tells of every limit with its required parameters', () => {
  fc.assert(
    fc.property(anyDecisions, (decisions) => {
      const fields = headers(decisions, ['draft-11']);
      const listed = shown(decisions);
      if (listed.length === 0) {
        expect(fields).toEqual({});
        return;
      }
      const policyItems = parseItems(fields['RateLimit-Policy']);
      expect(policyItems.map(([name]) => name)).toEqual([...new Set(listed.map((v) => v.name))]);
      for (const [, parameters] of policyItems) {
        expect(parameters.has('q')).toBe(true);
        expect(parameters.has('w')).toBe(!parameters.has('qu'));
      }
      const items = fields['RateLimit'] === undefined ? [] : parseItems(fields['RateLimit']);
      for (const [name, parameters] of items) {
        expect(listed.some((v) => v.name === name && isCounted(v))).toBe(true);
        expect(parameters.has('r')).toBe(true);
      }
    }),
    RUNS,
  );
});

it('tells no wait shorter than a verdict’s, nor a second longer', () => {
  const hasGuess = ({ policy, reason, retryAfterMs }: Verdict): boolean =>
    policy === inflight &&
    (reason === 'limited' || reason === 'overloaded') &&
    retryAfterMs !== Infinity;
  fc.assert(
    fc.property(anyDecisions, anyForms, (decisions, forms) => {
      const fields = headers(decisions, forms);
      const refusing = shown(decisions).filter(({ allowed }) => !allowed);
      expect(fields['Cache-Control']).toBe(refusing.length > 0 ? 'no-store' : undefined);
      const wait = Math.max(...refusing.map((v) => (hasGuess(v) ? 1_000 : v.retryAfterMs)));
      if (refusing.length === 0 || wait === Infinity) {
        expect(fields).not.toHaveProperty('Retry-After');
        return;
      }
      const told = Number(fields['Retry-After']) * 1_000;
      expect(told).toBeGreaterThanOrEqual(wait);
      expect(told - 1_000).toBeLessThan(wait);
    }),
    RUNS,
  );
});

it('tells the same times in every form', () => {
  fc.assert(
    fc.property(anyVerdict, (only) => {
      fc.pre(!only.shadow && only.policy !== inflight && isCounted(only));
      const decision = decide([only]);
      const t = parseItems(headers([decision], ['draft-11'])['RateLimit'])[0]?.[1].get('t');
      if (only.nextAfterMs === 0 || only.nextAfterMs === Infinity) expect(t).toBe(undefined);
      else expect(Number(t) * 1_000).toBeGreaterThanOrEqual(only.nextAfterMs);
      const waits = !only.allowed && only.retryAfterMs !== Infinity;
      const reset = Number(headers([decision], ['draft-6'])['RateLimit-Reset']);
      const atLeast = waits ? only.retryAfterMs : only.resetAfterMs;
      expect(reset * 1_000).toBeGreaterThanOrEqual(atLeast);
      if (waits) expect(headers([decision])['Retry-After']).toBe(`${reset}`);
      expect(headers([decision], ['draft-7'])['RateLimit']).toContain(`, reset=${reset}`);
      const epoch = Number(headers([decision], ['x-ratelimit'])['X-RateLimit-Reset']) * 1_000;
      const latest = Math.max(only.resetAfterMs, atLeast);
      expect(epoch).toBeGreaterThanOrEqual(decision.atMs + latest);
    }),
    RUNS,
  );
});
