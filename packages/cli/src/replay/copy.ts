/** A copy of a text: one cut out of a line would keep the whole chunk of the log in memory for as long as it lives. */
export function copyOf(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
