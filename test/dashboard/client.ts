import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Send {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends exactly these headers, which `fetch` would not. */
export async function send(url: string, { method, headers = {}, body }: Send = {}): Promise<Reply> {
  const sent = request(url, { method: method ?? 'GET', headers, agent: false });
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    body: await text(answer),
  };
}

/** Posts JSON as the page does, with what a browser adds. Some headers may be others, or left out with undefined. */
export function post(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string | undefined>> = {},
): Promise<Reply> {
  const all: Record<string, string | undefined> = {
    'Content-Type': 'application/json',
    Origin: new URL(url).origin,
    'Sec-Fetch-Site': 'same-origin',
    ...headers,
  };
  const given = Object.entries(all).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  return send(url, {
    method: 'POST',
    headers: Object.fromEntries(given),
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** What is read of the page's data. */
export interface State {
  readonly operator?: string;
  readonly keys: string;
  readonly refusedOf: string;
  readonly store: { readonly state: string; readonly shared: boolean; readonly bans: boolean };
  readonly stepMs: number;
  readonly limits: readonly {
    readonly name: string;
    readonly shadow: boolean;
    readonly varies: boolean;
    readonly policies: readonly { readonly algorithm: string; readonly numbers: string }[];
    readonly totals: Readonly<Record<'admitted' | 'refused' | 'elsewhere', number>>;
    readonly counts: Readonly<Record<'admitted' | 'refused' | 'elsewhere', readonly number[]>>;
    readonly refused: readonly { readonly key: string; readonly count: number }[];
  }[];
}

export async function stateOf(page: string, query = ''): Promise<State> {
  const { status, body } = await send(`${page}/api/state${query}`);
  if (status !== 200) throw new Error(`The state was answered with ${status}: ${body}`);
  return JSON.parse(body) as State;
}

/** The one limit of a state. */
export async function onlyLimit(page: string): Promise<State['limits'][number]> {
  const [limit] = (await stateOf(page)).limits;
  if (limit === undefined) throw new Error('There is no limit.');
  return limit;
}
