import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import type { Reason } from '../src/verdict.ts';
import { TollgateArgumentError } from '../src/errors.ts';
import { PROBLEM_TYPE, problemBody, problemBytes, statusOf } from '../src/http/problem.ts';
import { decide, verdict } from './verdicts.ts';

interface Vector {
  readonly id: string;
  readonly generation: string | readonly string[];
  readonly policies: readonly { readonly name: string }[];
  readonly options?: { readonly problem: string };
  readonly decision: {
    readonly states: readonly { readonly policy: string; readonly retryAfterMs?: number }[];
  };
  readonly expect: Readonly<Record<string, string>>;
  readonly expectBody: object;
}

const vectors = JSON.parse(
  readFileSync(new URL('./vectors/header-vectors.json', import.meta.url), 'utf8'),
) as readonly Vector[];
const problems = vectors.filter(({ generation }) => generation === 'problem');

const REASONS: Readonly<Record<string, Reason>> = {
  'temporary-reduced-capacity': 'overloaded',
  'abnormal-usage-detected': 'banned',
};

function refusal(name: string, reason: Reason, retryAfterMs = 5_000): ReturnType<typeof verdict> {
  return verdict({ name, reason, retryAfterMs, key: '203.0.113.7' });
}

describe('vectors', () => {
  it('are all run', () => expect(problems.map(({ id }) => id)).toEqual(['E62', 'E63', 'E64']));

  test.each(problems)('$id', ({ decision, options, expect: headers, expectBody }) => {
    const reason = REASONS[options?.problem ?? ''] ?? 'limited';
    const verdicts = decision.states.map(({ policy, retryAfterMs }) =>
      retryAfterMs === undefined
        ? verdict({ name: policy })
        : refusal(policy, reason, retryAfterMs),
    );
    const decisions = [decide(verdicts)];
    expect({ 'Content-Type': PROBLEM_TYPE }).toEqual(headers);
    expect(problemBody(decisions)).toEqual(expectBody);
    expect(JSON.parse(problemBytes(decisions).toString())).toEqual(expectBody);
  });
});

const GRAVEST_LAST: readonly Reason[] = [
  'limited',
  'overloaded',
  'banned',
  'denied',
  'store-unavailable',
];

test.each([
  ['ok', 200],
  ['limited', 429],
  ['overloaded', 503],
  ['banned', 429],
  ['denied', 403],
  ['store-unavailable', 503],
] as const)('the status of %s is %d', (reason, status) => {
  expect(statusOf(reason)).toBe(status);
  if (reason !== 'ok') {
    expect(problemBody([decide([refusal('a', reason)])])).toMatchObject({ status });
  }
});

describe('problemBody', () => {
  it('says nothing but Forbidden to those who are denied', () => {
    const decisions = [
      decide([refusal('login', 'limited'), refusal('ip', 'denied', Infinity)]),
      decide([refusal('day', 'banned')]),
    ];
    expect(problemBody(decisions)).toEqual({
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      'violated-policies': ['ip'],
    });
  });

  it('goes by the same gravity over decisions as a decision over verdicts', () => {
    for (const one of GRAVEST_LAST) {
      for (const other of GRAVEST_LAST) {
        const [a, b] = [refusal('a', one), refusal('b', other)];
        const { type, status } = problemBody([decide([a, b])]);
        expect(status).toBe(statusOf(decide([a, b]).reason));
        expect(problemBody([decide([a]), decide([b])])).toMatchObject({ type, status });
      }
    }
  });

  it('names each limit that refused once, in order, and neither shadows nor keys', () => {
    const shadow = { ...refusal('trial', 'banned'), shadow: true };
    const decisions = [
      decide([refusal('b', 'limited'), shadow, verdict({ name: 'c' })]),
      decide([refusal('a', 'overloaded'), refusal('b', 'limited')]),
    ];
    expect(problemBody(decisions)['violated-policies']).toEqual(['b', 'a']);
    expect(problemBody(decisions).status).toBe(503);
    expect(problemBytes(decisions).toString()).not.toContain('203.0.113.7');
  });

  it('throws where nothing refuses', () => {
    expect(() => problemBody([decide([verdict()])])).toThrow(TollgateArgumentError);
    expect(() => problemBytes([])).toThrow(TollgateArgumentError);
  });
});

describe('problemBytes', () => {
  it('is the body of just these limits and this reason', () => {
    for (let round = 0; round < 2; round++) {
      for (const reason of GRAVEST_LAST) {
        for (const names of [['a'], ['b'], ['a', 'b'], ['b', 'a']]) {
          const decisions = [decide(names.map((name) => refusal(name, reason)))];
          expect(JSON.parse(problemBytes(decisions).toString())).toEqual(problemBody(decisions));
        }
      }
    }
  });

  it('stays right when more texts are needed than are kept', () => {
    for (let index = 0; index < 3_000; index++) {
      const decisions = [decide([refusal(`limit${index % 1_100}`, 'limited')])];
      expect(problemBytes(decisions).toString()).toBe(JSON.stringify(problemBody(decisions)));
    }
  });
});
