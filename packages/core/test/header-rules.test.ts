import { describe, expect, it, test } from 'vitest';
import type { Decision } from '../src/decision.ts';
import type { Verdict } from '../src/verdict.ts';
import { concurrency, fixedWindow, gcra, leakyBucket, tokenBucket } from '../src/policy.ts';
import { decide, headers, NOW, verdict } from './verdicts.ts';

const hour = fixedWindow({ limit: 1_000, window: '1h' });
const inflight = concurrency({ limit: 8 });
const slot = { name: 'inflight', policy: inflight, nextAfterMs: 60_000, resetAfterMs: 60_000 };
const slotRefused = verdict({ ...slot, retryAfterMs: 60_000 });

describe('concurrency', () => {
  it('is passed over by the forms that know only windows', () => {
    const decision = decide([verdict({ ...slot, remaining: 0 }), verdict()]);
    expect(headers([decision])).toEqual({
      'RateLimit-Limit': '100',
      'RateLimit-Remaining': '99',
      'RateLimit-Reset': '50',
      RateLimit: '"inflight";r=0, "default";r=99;t=50',
      'RateLimit-Policy': '"inflight";q=8;qu="concurrent-requests", "default";q=100;w=60',
    });
    expect(headers([decision], ['draft-7'])['RateLimit-Policy']).toBe('100;w=60');
  });

  it('refuses alone: no healthy limit stands in for it', () => {
    const decision = decide([slotRefused, verdict()]);
    expect(headers([decision], ['draft-6', 'x-ratelimit'])).toEqual({
      'Retry-After': '1',
      'Cache-Control': 'no-store',
    });
    expect(headers([decision], [], 7)['Retry-After']).toBe('7');
  });

  it('never has a client back before a window that refuses too', () => {
    const decision = decide([slotRefused, verdict({ retryAfterMs: 30_000 })]);
    const fields = headers([decision]);
    expect(fields).toMatchObject({ 'RateLimit-Reset': '30', 'Retry-After': '30' });
    const admitting = decide([verdict(slot), verdict({ retryAfterMs: 2_000 })]);
    expect(headers([admitting], [], 7)['Retry-After']).toBe('2');
  });

  it('knows a wait that is certain', () => {
    const banned = verdict({ ...slot, reason: 'banned', retryAfterMs: 90_000 });
    expect(headers([decide([banned])], [])['Retry-After']).toBe('90');
    const never = verdict({ ...slot, policy: concurrency({ limit: 0 }), retryAfterMs: Infinity });
    expect(headers([decide([never])], [])).toEqual({ 'Cache-Control': 'no-store' });
  });
});

describe('several decisions', () => {
  it('are told as one', () => {
    const first = decide([verdict({ name: 'ip' })]);
    const second = decide([verdict({ name: 'day', policy: hour, remaining: 10 })], NOW + 1_000);
    expect(headers([first, second], ['x-ratelimit', 'draft-11'])).toEqual({
      'X-RateLimit-Limit': '1000',
      'X-RateLimit-Remaining': '10',
      'X-RateLimit-Reset': `${NOW / 1_000 + 51}`,
      RateLimit: '"ip";r=99;t=50, "day";r=10;t=50',
      'RateLimit-Policy': '"ip";q=100;w=60, "day";q=1000;w=3600',
    });
  });

  it('tell a name once, by its less favourable verdict', () => {
    const other = verdict({ name: 'other' });
    const dearer = [decide([verdict(), other]), decide([verdict({ remaining: 95 })])];
    const texts = '"default";r=95;t=50, "other";r=99;t=50';
    expect(headers(dearer)).toMatchObject({ 'RateLimit-Remaining': '95', RateLimit: texts });
    expect(headers(dearer.toReversed())['RateLimit']).toBe(texts);
    const refused = [
      decide([verdict({ remaining: 1 })]),
      decide([verdict({ retryAfterMs: 9_000 })]),
    ];
    expect(headers(refused)).toMatchObject({ RateLimit: '"default";r=0;t=50', 'Retry-After': '9' });
  });

  it('refuse together: the longest wait', () => {
    const short = decide([verdict({ name: 'a', retryAfterMs: 2_000 })]);
    const long = decide([verdict({ name: 'b', policy: hour, retryAfterMs: 3_000 })]);
    for (const decisions of [
      [short, long],
      [long, short],
    ]) {
      expect(headers(decisions)).toMatchObject({ 'RateLimit-Limit': '1000', 'Retry-After': '3' });
    }
  });
});

describe('the one verdict of x-ratelimit, draft-6 and draft-7', () => {
  const limitOf = (...verdicts: Verdict[]): string | undefined =>
    headers([decide(verdicts)])['RateLimit-Limit'];

  it('has the least share left, not the fewest units', () => {
    const day = verdict({ name: 'day', policy: hour, remaining: 20 });
    expect(limitOf(verdict({ remaining: 10 }), day)).toBe('1000');
  });

  it('has the longer reset where the shares are equal, else comes first', () => {
    const first = verdict({ remaining: 10 });
    const second = verdict({ name: 'day', policy: hour, remaining: 100 });
    expect(limitOf(first, second)).toBe('100');
    expect(limitOf(first, { ...second, resetAfterMs: 50_001 })).toBe('1000');
    expect(limitOf({ ...first, resetAfterMs: 50_001 }, second)).toBe('100');
    expect(limitOf(second, first)).toBe('1000');
  });
});

describe('what is not said', () => {
  test.each([[[]], [[decide([])]], [[decide([verdict({ shadow: true, retryAfterMs: 5 })])]]])(
    'nothing without a verdict to show',
    (decisions: readonly Decision[]) => expect(headers(decisions)).toEqual({}),
  );

  it('shadow verdicts', () => {
    const shadow = verdict({ name: 'trial', shadow: true, retryAfterMs: 5_000 });
    expect(headers([decide([shadow, verdict()])])).toEqual(headers([decide([verdict()])]));
  });

  it('a wait to those who are denied', () => {
    const denied = verdict({ reason: 'denied', source: 'none', retryAfterMs: Infinity });
    expect(headers([decide([denied])])).toEqual({
      'RateLimit-Policy': '"default";q=100;w=60',
      'Cache-Control': 'no-store',
    });
    expect(headers([decide([{ ...denied, source: 'store' }])])).not.toHaveProperty('RateLimit');
    // A wait that the denial came with would not help either.
    expect(headers([decide([{ ...denied, retryAfterMs: 5_000 }])], [])['Retry-After']).toBe(
      undefined,
    );
  });

  it('a wait where none helps, though a reset must be a number', () => {
    const never = verdict({
      retryAfterMs: Infinity,
      remaining: 100,
      nextAfterMs: 0,
      resetAfterMs: 0,
    });
    const fields = headers([decide([never])]);
    expect(fields).toMatchObject({ 'RateLimit-Reset': '60', RateLimit: '"default";r=100' });
    expect(fields).not.toHaveProperty('Retry-After');
    expect(headers([decide([verdict({ nextAfterMs: Infinity })])])['RateLimit']).toBe(
      '"default";r=99',
    );
  });
});

describe('numbers', () => {
  test.each([
    [gcra({ rate: 100, per: '1m', burst: 20 }), 'q=20;w=12'],
    [tokenBucket({ capacity: 25, rate: 3, per: '1m' }), 'q=25;w=500'],
    [tokenBucket({ capacity: 10, rate: 3, per: '1s' }), 'q=10;w=4'],
    [tokenBucket({ capacity: 0, rate: 3, per: '1s' }), 'q=0;w=1'],
    [
      leakyBucket({ capacity: 481_657_196_475, rate: 5_292_936_225, per: '1d' }),
      'q=481657196475;w=7862400',
    ],
    [fixedWindow({ limit: 2 ** 53 - 1, window: '1001ms' }), 'q=999999999999999;w=2'],
  ])('the window of %j is what its quota takes', (policy, text) => {
    expect(headers([decide([verdict({ policy })])])['RateLimit-Policy']).toBe(`"default";${text}`);
  });

  test.each([
    [0.001, 999.999, '1767225601'],
    [0.001, 1_000, '1767225602'],
    [999.999, 0.001, '1767225601'],
    [999.999, 0.002, '1767225602'],
  ])('the epoch reset is exact to the microsecond: %d + %d', (at, resetAfterMs, reset) => {
    const decision = decide([verdict({ resetAfterMs })], NOW + at);
    expect(headers([decision], ['x-ratelimit'])['X-RateLimit-Reset']).toBe(reset);
  });

  it('keeps the text of a policy apart by name', () => {
    const both = decide([verdict({ name: 'a' }), verdict({ name: 'b' })]);
    expect(headers([both])['RateLimit-Policy']).toBe('"a";q=100;w=60, "b";q=100;w=60');
    expect(headers([both], ['draft-6'])['RateLimit-Policy']).toBe('100;w=60');
  });
});
