import { isAscii } from 'node:buffer';

const NEWLINE = 0x0a;
const RETURN = 0x0d;
/** A longer line is no line of a log. */
const LONGEST_LINE = 1 << 20;

/** Is shown each line as a part of a longer text: cutting it out would cost more than most lines are worth. */
export type OnLine = (text: string, from: number, end: number) => void;

/**
 * Shows every line of a log that is not empty, without its end. Of a line beyond 1 MiB only the beginning is shown.
 * Holds one chunk at a time, and of the one before no more than a line.
 */
export async function eachLine(chunks: AsyncIterable<Buffer>, onLine: OnLine): Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  let isFirst = true;
  let skipping = false;
  for await (const each of chunks) {
    let chunk = each;
    if (skipping) {
      const newline = chunk.indexOf(NEWLINE);
      if (newline === -1) continue;
      skipping = false;
      chunk = chunk.subarray(newline + 1);
    }
    if (rest.length > 0) chunk = Buffer.concat([rest, chunk]);
    if (isFirst && chunk.length >= 3) {
      isFirst = false;
      if (chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf) chunk = chunk.subarray(3);
    }
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > 0) showLines(decode(chunk.subarray(0, end)), onLine);
    rest = chunk.subarray(end);
    if (rest.length > LONGEST_LINE) {
      showLines(decode(rest.subarray(0, 200)), onLine);
      rest = Buffer.alloc(0);
      skipping = true;
    }
  }
  if (rest.length > 0) showLines(decode(rest), onLine);
}

/** ASCII, which nearly all logs are, is decoded by copying. */
function decode(bytes: Buffer): string {
  return bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8');
}

function showLines(text: string, onLine: OnLine): void {
  let from = 0;
  while (from < text.length) {
    const newline = text.indexOf('\n', from);
    const next = newline === -1 ? text.length : newline;
    let end = next;
    if (end > from && text.charCodeAt(end - 1) === RETURN) end--;
    if (end > from) onLine(text, from, end);
    from = next + 1;
  }
}
