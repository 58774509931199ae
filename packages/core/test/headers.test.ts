import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import type { Decision } from '../src/decision.ts';
import { TollgateConfigError } from '../src/errors.ts';
import {
  DEFAULT_FORMS,
  exposedHeaders,
  type HeaderForm,
  mergeExposed,
  parseForms,
  suppressed,
} from '../src/http/headers.ts';
import { concurrency, gcra, type Policy, tokenBucket } from '../src/policy.ts';
import { decide, headers, verdict } from './verdicts.ts';

interface Vector {
  readonly id: string;
  readonly generation: string | readonly string[];
  readonly note?: string;
  readonly gens?: readonly HeaderForm[];
  readonly existing?: string;
  readonly now: number;
  readonly policies: readonly {
    readonly name: string;
    readonly algorithm: string;
    readonly limit: number;
    readonly windowMs: number | null;
    readonly refillPerSec?: number;
    readonly emissionIntervalMs?: number;
  }[];
  readonly decision: {
    readonly allowed: boolean;
    readonly status: number;
    readonly storeError?: true;
    readonly retryAfterMs?: number;
    readonly states: readonly {
      readonly policy: string;
      readonly remaining: number;
      readonly nextMs: number | null;
      readonly resetMs: number;
      readonly retryAfterMs?: number;
    }[];
  };
  readonly expect: Readonly<Record<string, string>>;
  readonly absent?: readonly string[];
  readonly expectError?: string;
}

const LEFT_OUT: Readonly<Record<string, string>> = {
  E04: 'draft-8 is no form of ours',
  E06: 'an unpublished revision',
  E14: "the encoding of x-ratelimit's reset is no option",
  E15: 'Retry-After is never a date',
  E20: 'draft-8 is no form of ours',
  E44: 'no partition keys',
  E45: 'no partition keys',
  E46: 'no partition keys',
  E50: 'no infinite limits',
  E51: 'no infinite limits',
  E52: 'limits are whole numbers',
  E55: 'the limiter restricts names',
  E56: 'the limiter restricts names',
  E62: 'a body, see problem.test.ts',
  E63: 'a body, see problem.test.ts',
  E64: 'a body, see problem.test.ts',
  E65: 'an unpublished revision',
  E69: 'no cap on r/t',
  E70: 'no cap on r/t',
};

const vectors = JSON.parse(
  readFileSync(new URL('./vectors/header-vectors.json', import.meta.url), 'utf8'),
) as readonly Vector[];

function policyOf({ algorithm, limit, ...rest }: Vector['policies'][number]): Policy {
  if (algorithm === 'concurrency') return concurrency({ limit });
  if (algorithm === 'gcra') {
    return gcra({ rate: 1, per: rest.emissionIntervalMs ?? 0, burst: limit });
  }
  if (algorithm === 'token-bucket') {
    return tokenBucket({ capacity: limit, rate: rest.refillPerSec ?? 0, per: '1s' });
  }
  // By hand, since E53 goes beyond what a policy may hold.
  return Object.freeze({ algorithm: 'fixed-window', limit, window: rest.windowMs ?? 0 });
}

function decisionOf({ policies, decision, now }: Vector): Decision {
  const verdicts = policies.map((policy) => {
    const fields = { name: policy.name, policy: policyOf(policy) };
    if (decision.storeError === true) {
      const refusal = {
        reason: 'store-unavailable',
        retryAfterMs: decision.retryAfterMs ?? 0,
      } as const;
      return verdict({ ...fields, source: 'none', ...(decision.allowed ? {} : refusal) });
    }
    const state = decision.states.find(({ policy: name }) => name === policy.name);
    if (state === undefined) throw new Error(`no state of ${policy.name}`);
    const allowed = decision.allowed || (policies.length > 1 && state.retryAfterMs === undefined);
    // A slot's true times are those of its timeout, which no header may tell.
    const slot = policy.algorithm === 'concurrency';
    return verdict({
      ...fields,
      allowed,
      reason: allowed ? 'ok' : 'limited',
      remaining: state.remaining,
      nextAfterMs: slot ? 60_000 : (state.nextMs ?? 0),
      resetAfterMs: slot ? 60_000 : state.resetMs,
      retryAfterMs: allowed ? 0 : slot ? 60_000 : (state.retryAfterMs ?? Infinity),
    });
  });
  return decide(verdicts, now);
}

describe('vectors', () => {
  const applying = vectors.filter(({ id }) => !(id in LEFT_OUT));

  it('are all run but those left out', () => {
    expect(vectors).toHaveLength(75);
    expect(applying).toHaveLength(56);
  });

  test.each(applying)('$id $generation: $note', (vector) => {
    if (vector.gens !== undefined) {
      const field = mergeExposed(vector.existing, vector.gens);
      expect({ 'Access-Control-Expose-Headers': field }).toEqual(vector.expect);
      return;
    }
    const read = (): readonly HeaderForm[] => parseForms([vector.generation].flat(), 'headers');
    if (vector.expectError !== undefined) {
      expect(read).toThrow(TollgateConfigError);
      return;
    }
    const decision = decisionOf(vector);
    const sent = suppressed([decision], vector.decision.status) ? {} : headers([decision], read());
    expect(sent).toEqual(vector.expect);
    for (const name of vector.absent ?? []) expect(sent).not.toHaveProperty(name);
  });
});

describe('parseForms', () => {
  it('reads the default, none, and a list', () => {
    expect(parseForms(undefined, 'headers')).toBe(DEFAULT_FORMS);
    expect(DEFAULT_FORMS).toEqual(['draft-6', 'draft-11']);
    expect(parseForms(false, 'headers')).toEqual([]);
    expect(parseForms([], 'headers')).toEqual([]);
    expect(parseForms(['draft-7', 'x-ratelimit'], 'headers')).toEqual(['draft-7', 'x-ratelimit']);
  });

  const all = 'x-ratelimit, draft-6, draft-7, draft-11';
  test.each([
    [true, 'headers', `headers: expected false or an array of ${all}, got true`],
    [null, 'headers', `headers: expected false or an array of ${all}, got null`],
    ['draft-6', 'headers', `expected false or an array of ${all}, got "draft-6" (string)`],
    [['draft-6', 'draft6'], 'headers[1]', `unknown form "draft6" (string); there are ${all}`],
    [['toString'], 'headers[0]', `there are ${all}`],
    [[7], 'headers[0]', `unknown form 7; there are ${all}`],
    [['draft-8'], 'headers[0]', 'write "draft-11", which has its syntax'],
    [['draft-6', 'draft-6'], 'headers[1]', '"draft-6" (string) is listed twice; drop one'],
    [['draft-11', 'draft-7'], 'headers', '"draft-7" and "draft-11" write RateLimit in two types'],
  ])('refuses %j', (value, path, message) => {
    const parse = (): unknown => parseForms(value, 'headers');
    expect(parse).toThrow(TollgateConfigError);
    expect(parse).toThrow(expect.objectContaining({ path }));
    expect(parse).toThrow(message);
  });

  it('keeps a list of its own', () => {
    const given = ['draft-6'];
    const forms = parseForms(given, 'headers');
    given.push('draft-11');
    expect(forms).toEqual(['draft-6']);
    expect(Object.isFrozen(forms)).toBe(true);
  });
});

describe('Access-Control-Expose-Headers', () => {
  it('lists each field once, and Retry-After even without a form', () => {
    expect(exposedHeaders(['draft-6', 'draft-11'])).toEqual([
      'RateLimit-Limit',
      'RateLimit-Remaining',
      'RateLimit-Reset',
      'RateLimit-Policy',
      'RateLimit',
      'Retry-After',
    ]);
    expect(exposedHeaders([])).toEqual(['Retry-After']);
  });

  test.each([
    [undefined, 'Retry-After'],
    ['', 'Retry-After'],
    [' , ETag,,etag ', 'ETag, Retry-After'],
    // With credentials `*` is a name like any other, so that ours are still needed.
    ['*', '*, Retry-After'],
  ])('merges %j', (existing, merged) => {
    expect(mergeExposed(existing, [])).toBe(merged);
  });
});

describe('suppressed', () => {
  const nothingLeft = decide([verdict({ remaining: 0 })]);
  const someLeft = decide([verdict({ remaining: 1 })]);

  test.each([300, 301, 302, 303, 307, 308])('a redirect (%d) with nothing remaining', (status) => {
    expect(suppressed([nothingLeft], status)).toBe(true);
    expect(suppressed([someLeft, nothingLeft], status)).toBe(true);
    expect(suppressed([someLeft], status)).toBe(false);
    expect(suppressed([], status)).toBe(false);
  });

  test.each([200, 299, 304, 400, 429])('never %d', (status) => {
    expect(suppressed([nothingLeft], status)).toBe(false);
  });

  it('goes by what a client may see', () => {
    const shadow = verdict({ name: 'trial', shadow: true, remaining: 0 });
    const uncounted = verdict({ name: 'unasked', source: 'none', remaining: 0 });
    expect(suppressed([decide([shadow, verdict(), uncounted])], 302)).toBe(false);
  });
});
