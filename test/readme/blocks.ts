/** A fenced block of a page. */
export interface Block {
  /** The heading above it. */
  readonly heading: string;
  readonly language: string;
  readonly code: string;
  /** What its comments say that it prints, line by line. */
  readonly printed: readonly string[];
}

const FENCE = /^```(\w*)$/;
const HEADING = /^#+ (.*)$/;
const PRINTED = /\/\/ => (.*)$/;

/** The fenced blocks of a page, in order. */
export function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let heading = '';
  let language: string | undefined;
  let lines: string[] = [];
  for (const line of page.split('\n')) {
    const fence = FENCE.exec(line);
    if (fence === null) {
      lines.push(line);
      if (language === undefined) heading = HEADING.exec(line)?.[1] ?? heading;
    } else if (language === undefined) {
      language = fence[1] ?? '';
      lines = [];
    } else {
      const printed = lines.flatMap((each) => PRINTED.exec(each)?.[1] ?? []);
      blocks.push({ heading, language, code: lines.join('\n'), printed });
      language = undefined;
    }
  }
  return blocks;
}
