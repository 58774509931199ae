import type { ServerResponse } from 'node:http';

/** What a request is answered. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** On every answer: nothing is kept, framed, guessed at or handed to other sites. */
const GUARDED = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
} as const;

export function json(status: number, value: unknown, headers: Answer['headers'] = {}): Answer {
  return {
    status,
    headers: { ...GUARDED, 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(value),
  };
}

/** An answer that says what is wrong and how to mend it. */
export function problem(status: number, error: string, headers: Answer['headers'] = {}): Answer {
  return json(status, { error }, headers);
}

export function html(body: string, policy: string): Answer {
  return {
    status: 200,
    headers: {
      ...GUARDED,
      'Content-Security-Policy': policy,
      'Content-Type': 'text/html; charset=utf-8',
    },
    body,
  };
}

/** Writes an answer; to HEAD without its body. */
export function write(response: ServerResponse, answer: Answer, isHead: boolean): void {
  // Begun by somebody in front of the page.
  if (response.headersSent) {
    if (!response.writableEnded) response.destroy();
    return;
  }
  const body = Buffer.from(answer.body);
  response.statusCode = answer.status;
  for (const [name, value] of Object.entries(answer.headers)) response.setHeader(name, value);
  response.setHeader('Content-Length', body.byteLength);
  response.end(isHead ? undefined : body);
}
