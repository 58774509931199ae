import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readRateLimit } from '../src/index.ts';

interface Vector {
  readonly id: string;
  readonly note: string;
  readonly status: number;
  readonly now: number;
  readonly fields: Readonly<Record<string, string | readonly string[]>>;
  /** What is not said is null. */
  readonly expect: object;
}

const vectors = JSON.parse(
  readFileSync(new URL('./vectors/readings.json', import.meta.url), 'utf8'),
) as Vector[];

function headersOf(fields: Vector['fields']): Headers {
  const headers = new Headers();
  for (const [name, lines] of Object.entries(fields)) {
    for (const line of [lines].flat()) {
      // A field of HTTP is bytes, which is what `é` comes as.
      headers.append(name, Buffer.from(line, 'utf8').toString('latin1'));
    }
  }
  return headers;
}

/** The same with null for what is undefined, as JSON has it. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_key, each: unknown) => each ?? null));
}

describe('what header fields say', () => {
  it.each(vectors.map((vector) => [vector.id, vector.note, vector] as const))(
    '%s: %s',
    (_id, _note, { fields, status, now, expect: expected }) => {
      expect(plain(readRateLimit({ headers: headersOf(fields), status }, now))).toEqual(expected);
    },
  );

  it('is told by vectors of every kind', () => {
    expect(vectors).toHaveLength(87);
  });
});
