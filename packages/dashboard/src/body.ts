import type { IncomingMessage } from 'node:http';

const MOST_BYTES = 16_384;

/** What is wrong with a body, as the status and the text of its answer. */
export class BodyError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * The JSON object in a request's body: at most 16 kB. Where a body parser in front has taken it, what that made of it.
 *
 * @throws BodyError
 */
export async function jsonBody(
  request: IncomingMessage,
): Promise<Readonly<Record<string, unknown>>> {
  const type = request.headers['content-type'] ?? '';
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new BodyError(415, 'Send JSON, with Content-Type: application/json.');
  }
  const { body } = request as { readonly body?: unknown };
  const isTaken = request.readableEnded && body !== undefined;
  const value = isTaken ? fromParser(body) : parsed(await text(request));
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw new BodyError(400, 'The body must be a JSON object.');
}

/** What a body parser left behind: what it read, or the body as it came. */
function fromParser(body: unknown): unknown {
  return typeof body === 'string' || Buffer.isBuffer(body) ? parsed(String(body)) : body;
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Left open where it is too long, since the answer goes the same way.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    const bytesOf = chunk as Buffer;
    bytes += bytesOf.byteLength;
    if (bytes > MOST_BYTES)
      throw new BodyError(413, `The body is longer than ${MOST_BYTES} bytes.`);
    chunks.push(bytesOf);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new BodyError(400, 'The body is not JSON.');
  }
}
