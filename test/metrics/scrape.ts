import { ask } from '../http/clients.ts';

/** A scrape of a service: the values by name and labels, and the types by name. */
export interface Scrape {
  readonly values: Readonly<Record<string, number>>;
  readonly types: Readonly<Record<string, string>>;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Fetches and parses the text that Prometheus would. */
export async function scrape(url: string): Promise<Scrape> {
  return parsed((await ask(url)).text);
}

export function parsed(text: string): Scrape {
  const values: Record<string, number> = {};
  const types: Record<string, string> = {};
  for (const line of text.split('\n')) {
    if (line.startsWith('# TYPE ')) {
      const [, , name = '', type = ''] = line.split(' ');
      types[name] = type;
    }
    if (line === '' || line.startsWith('#')) continue;
    const [, name, labels = '', value] = LINE.exec(line) ?? [];
    if (name === undefined) throw new Error(`not a line of Prometheus' text: ${line}`);
    const pairs = [...labels.matchAll(LABEL)].map(([, label, told]) => `${label}=${told}`).sort();
    values[[name, ...pairs].join(' ')] = Number(value);
  }
  return { values, types };
}
