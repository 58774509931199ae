/** A bare item of a structured field (RFC 9651). Bytes are written in hexadecimal. */
export interface Bare {
  readonly type: 'integer' | 'decimal' | 'string' | 'token' | 'bytes' | 'boolean' | 'date';
  readonly value: string | number | boolean;
}

/** A member of a list or a dictionary with its parameters. An inner list has no bare value that is of use here. */
export interface Item {
  readonly bare: Bare | undefined;
  readonly parameters: ReadonlyMap<string, Bare>;
}

/** Raised and caught in this file: a field is read whole or not at all. */
class Malformed extends Error {}

const KEY = /[a-z*][a-z0-9_\-.*]*/y;
const NUMBER = /-?(\d+)(?:\.(\d+))?/y;
const STRING = /"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"/y;
const TOKEN = /[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*/y;
const BYTES = /:([A-Za-z0-9+/]*={0,2}):/y;
const BOOLEAN = /\?([01])/y;
const DATE = /@(-?\d{1,15})/y;
const DISPLAY = /%"((?:[\x20-\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*)"/y;
const SPACES = / */y;
const BLANKS = /[ \t]*/y;

/**
 * Reads a field whose value is a List.
 *
 * @returns its members, or undefined where any part of it is malformed.
 */
export function parseList(text: string): Item[] | undefined {
  return whole(text, (reader) => {
    const items: Item[] = [];
    reader.members(() => items.push(reader.item()));
    return items;
  });
}

/**
 * Reads a field whose value is a Dictionary. Of a key that comes twice the last counts.
 *
 * @returns its members, or undefined where any part of it is malformed.
 */
export function parseDictionary(text: string): Map<string, Item> | undefined {
  return whole(text, (reader) => {
    const members = new Map<string, Item>();
    reader.members(() => {
      const key = reader.key();
      members.set(key, reader.has('=') ? reader.item() : reader.flag());
    });
    return members;
  });
}

function whole<T>(text: string, read: (reader: Reader) => T): T | undefined {
  try {
    return read(new Reader(text.trim()));
  } catch (error) {
    if (error instanceof Malformed) return undefined;
    throw error;
  }
}

class Reader {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** Calls `read` at each of the members that commas part. */
  members(read: () => void): void {
    while (this.at < this.text.length) {
      read();
      this.match(BLANKS);
      if (this.at === this.text.length) return;
      if (!this.has(',')) throw new Malformed();
      this.match(BLANKS);
      if (this.at === this.text.length) throw new Malformed();
    }
  }

  item(): Item {
    if (!this.has('(')) return { bare: this.bare(), parameters: this.parameters() };
    for (;;) {
      this.match(SPACES);
      if (this.has(')')) return { bare: undefined, parameters: this.parameters() };
      this.bare();
      this.parameters();
      if (this.text[this.at] !== ' ' && this.text[this.at] !== ')') throw new Malformed();
    }
  }

  /** A member of a dictionary without a value. */
  flag(): Item {
    return { bare: { type: 'boolean', value: true }, parameters: this.parameters() };
  }

  key(): string {
    return (this.match(KEY) ?? fail())[0];
  }

  has(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private parameters(): Map<string, Bare> {
    const parameters = new Map<string, Bare>();
    while (this.has(';')) {
      this.match(SPACES);
      const key = this.key();
      parameters.set(key, this.has('=') ? this.bare() : { type: 'boolean', value: true });
    }
    return parameters;
  }

  private bare(): Bare {
    const string = this.match(STRING);
    if (string !== undefined) {
      return { type: 'string', value: (string[1] ?? '').replaceAll(/\\(.)/g, '$1') };
    }
    const number = this.match(NUMBER);
    if (number !== undefined) return numeric(number);
    const token = this.match(TOKEN);
    if (token !== undefined) return { type: 'token', value: token[0] };
    const bytes = this.match(BYTES);
    if (bytes !== undefined) return { type: 'bytes', value: hexOf(bytes[1] ?? '') };
    const boolean = this.match(BOOLEAN);
    if (boolean !== undefined) return { type: 'boolean', value: boolean[1] === '1' };
    const date = this.match(DATE);
    if (date !== undefined) return { type: 'date', value: Number(date[1]) };
    // Text for people, which no parameter read here may be: its escapes stay.
    const display = this.match(DISPLAY) ?? fail();
    return { type: 'string', value: display[1] ?? '' };
  }

  private match(form: RegExp): RegExpExecArray | undefined {
    form.lastIndex = this.at;
    const found = form.exec(this.text);
    if (found === null) return undefined;
    this.at = form.lastIndex;
    return found;
  }
}

function numeric([text, whole = '', fraction]: RegExpExecArray): Bare {
  if (fraction === undefined) {
    return whole.length <= 15 ? { type: 'integer', value: Number(text) } : fail();
  }
  if (whole.length > 12 || fraction.length > 3) return fail();
  return { type: 'decimal', value: Number(text) };
}

function hexOf(base64: string): string {
  // What is left over must be able to end a byte, padded or not.
  const length = base64.replace(/=+$/, '').length;
  if (length % 4 === 1 || (base64.includes('=') && base64.length % 4 !== 0)) return fail();
  const hexOfByte = (byte: string): string => byte.charCodeAt(0).toString(16).padStart(2, '0');
  return Array.from(atob(base64), hexOfByte).join('');
}

function fail(): never {
  throw new Malformed();
}
