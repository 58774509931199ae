import type { FileKeyPart, FileLimit, Policy } from '@tollgate/core';

const integer = new Intl.NumberFormat('en');

/** `12,346`. */
export function count(value: number): string {
  return integer.format(value);
}

/** `1 line`, `2 lines`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** A share as `1.23 %`; what is not nothing is never written as nothing, nor what is not all as all. */
export function percent(share: number): string {
  const written = (share * 100).toFixed(2);
  if (share > 0 && written === '0.00') return '< 0.01 %';
  if (share < 1 && written === '100.00') return '> 99.99 %';
  return `${written} %`;
}

/** `2026-10-10 13:55:36`, in UTC. */
export function instant(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}

/** From one instant to another, the day said once where it is the same. */
export function span(fromMs: number, toMs: number): string {
  const [from, to] = [instant(fromMs), instant(toMs)];
  if (from === to) return from;
  return `${from} – ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1_000, 's'],
] as const;

/** `1m`, `90s`, `250ms`: the largest unit that it is a whole number of. */
export function duration(ms: number): string {
  const [size, unit] = UNITS.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms'];
  return `${Number((ms / size).toFixed(3))}${unit}`;
}

export function policyText(policy: Policy): string {
  switch (policy.algorithm) {
    case 'token-bucket':
      return `token bucket of ${count(policy.capacity)}, ${count(policy.rate)} per ${duration(policy.per)}`;
    case 'leaky-bucket':
      return `leaky bucket of ${count(policy.capacity)}, ${count(policy.rate)} per ${duration(policy.per)}`;
    case 'concurrency':
      return `${count(policy.limit)} in flight`;
    default:
      return `${algorithmText(policy.algorithm)}, ${count(policy.limit)} per ${duration(policy.window)}`;
  }
}

/** `token bucket`. */
export function algorithmText(algorithm: string): string {
  return algorithm.replaceAll('-', ' ');
}

export function byText(by: NonNullable<FileLimit['by']>): string {
  const parts = (Array.isArray(by) ? by : [by]) as readonly FileKeyPart[];
  return parts.map((part) => (typeof part === 'string' ? part : part.field)).join(' and ');
}

export function matchText({ method, path }: NonNullable<FileLimit['match']>): string {
  return [method, path]
    .flatMap((each) => (each === undefined ? [] : [[each].flat().join('|')]))
    .join(' ');
}
