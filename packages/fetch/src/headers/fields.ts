import { parseDecimal, parseHttpDate } from './times.ts';

/** What a server says of one of its limits. What it does not say is undefined. Durations are milliseconds. */
export interface ServerLimit {
  readonly name: string | undefined;
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
  /** Until more is available. */
  readonly resetMs: number | undefined;
  readonly windowMs: number | undefined;
  /** What is counted: `requests`, `tokens`, `content-bytes`, `concurrent-requests` or a name of the server's own. */
  readonly unit: string;
  /** The partition that the limit is of, in hexadecimal. */
  readonly partition: string | undefined;
}

/** The kinds of header fields that are read, from the first choice to the last. */
export type Family =
  | 'draft-8+'
  | 'draft-next'
  | 'draft-7'
  | 'draft-6'
  | 'x-ratelimit'
  | 'x-rate-limit'
  | 'x-ratelimit-*'
  | 'anthropic'
  | 'shopify';

/** The header fields of one answer, and what of them could not be read. */
export class Fields {
  /** The server's time in milliseconds since the epoch. */
  readonly now: number;
  readonly ignored: string[] = [];
  private readonly headers: Headers;

  constructor(headers: Headers, now: number) {
    this.headers = headers;
    const date = this.get('date');
    const age = parseDecimal(this.get('age') ?? '') ?? 0;
    const sentAt = date === undefined ? undefined : parseHttpDate(date, now);
    // The difference of two moments is right only on one clock, and the server's may not be ours.
    this.now = sentAt === undefined ? now : sentAt + age * 1_000;
  }

  get(name: string): string | undefined {
    return this.headers.get(name) ?? undefined;
  }

  names(): string[] {
    return [...this.headers.keys()];
  }

  ignore(what: string): undefined {
    this.ignored.push(what);
    return undefined;
  }
}
