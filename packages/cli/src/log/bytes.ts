import { createReadStream, type Stats, statSync } from 'node:fs';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** A log that is to be read. */
export interface LogSource {
  /** A path, or `(stdin)`. */
  readonly name: string;
  /** How long it is, in bytes as it lies on disk; undefined where nobody knows. */
  readonly size: number | undefined;
  open(): Readable;
}

/** A log that cannot be read, or not to its end. */
export class UnreadableLogError extends Error {
  override readonly name = 'UnreadableLogError';

  constructor(log: string, cause: unknown) {
    super(`${log} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

const CHUNK = 1 << 20;
const STDIN = '(stdin)';

/**
 * A file, or standard input for `-`.
 *
 * @throws UnreadableLogError when there is none, or it is a folder.
 */
export function logSource(path: string): LogSource {
  if (path === '-') return { name: STDIN, size: undefined, open: () => process.stdin };
  let stats: Stats;
  try {
    stats = statSync(path);
  } catch (error) {
    throw new UnreadableLogError(path, error);
  }
  if (stats.isDirectory()) throw new UnreadableLogError(path, new Error('it is a folder'));
  return {
    name: path,
    size: stats.isFile() ? stats.size : undefined,
    open: () => createReadStream(path, { highWaterMark: CHUNK }),
  };
}

/**
 * The bytes of a log, unzipped where it begins as gzip does; several members behind one another are read as one.
 *
 * @param onBytes told how many bytes of the source each chunk took.
 * @throws UnreadableLogError, perhaps after some chunks: for a file that cannot be opened, or gzip that is broken.
 */
export async function* bytesOf(
  source: LogSource,
  onBytes: (count: number) => void = () => undefined,
): AsyncGenerator<Buffer> {
  try {
    const raw = counted(source.open(), onBytes);
    const start = await beginning(raw);
    const all = joined(start, raw);
    const isGzip = start[0] === 0x1f && start[1] === 0x8b;
    if (isGzip) yield* unzipped(all);
    else yield* all;
  } catch (error) {
    throw new UnreadableLogError(source.name, error);
  }
}

async function* counted(
  stream: Readable,
  onBytes: (count: number) => void,
): AsyncGenerator<Buffer, undefined> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    onBytes(chunk.length);
    yield chunk;
  }
  return undefined;
}

/** At least the two bytes that tell a format, where there are as many. */
async function beginning(raw: AsyncGenerator<Buffer, undefined>): Promise<Buffer> {
  let start: Buffer = Buffer.alloc(0);
  while (start.length < 2) {
    const { value } = await raw.next();
    if (value === undefined) break;
    start = Buffer.concat([start, value]);
  }
  return start;
}

async function* joined(start: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield start;
  yield* rest;
}

async function* unzipped(all: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK });
  const packed = Readable.from(all, { objectMode: false, highWaterMark: CHUNK });
  packed.once('error', (error) => gunzip.destroy(error));
  packed.pipe(gunzip);
  yield* gunzip as AsyncIterable<Buffer>;
}
