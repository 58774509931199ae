import { createInterface } from 'node:readline/promises';

/**
 * Asks before something is changed, where somebody is at a terminal who can answer; a script knows what it does.
 *
 * @param lines what it is about.
 */
export async function confirm(lines: readonly string[], question: string): Promise<boolean> {
  const { stdin: input, stderr: output } = process;
  if (!input.isTTY || !output.isTTY) return true;
  const asking = createInterface({ input, output });
  // The end of the input is no.
  const closed = new Promise<string>((resolve) => asking.once('close', () => resolve('')));
  try {
    const answer = asking.question(`${lines.join('\n')}\n${question}? [y/N] `);
    return /^y(?:es)?$/i.test((await Promise.race([answer, closed])).trim());
  } finally {
    asking.close();
  }
}
