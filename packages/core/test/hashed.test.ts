import { describe, expect, it } from 'vitest';
import { remembering } from '../src/http/hashed.ts';

describe('remembering', () => {
  const asked: string[] = [];
  const length = remembering((text) => asked.push(text) && text.length);
  const ask = (texts: readonly string[]): number => {
    asked.length = 0;
    for (const text of texts) expect(length(text)).toBe(text.length);
    return asked.length;
  };
  const texts = Array.from({ length: 5_000 }, (_, i) => `text-${i}`);

  it('asks once for what is asked for again and again', () => {
    expect(ask(texts.flatMap((text) => ['busy', text]))).toBe(5_001);
  });

  it('keeps 1,000 texts at most', () => {
    ask(texts);
    expect(ask(texts.slice(-500))).toBe(0);
    expect(ask(texts.slice(0, 4_000))).toBe(4_000);
  });

  it('keeps no long ones', () => {
    expect(ask(Array(3).fill('x'.repeat(512)))).toBe(1);
    expect(ask(Array(3).fill('x'.repeat(513)))).toBe(3);
  });
});
