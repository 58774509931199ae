import type { Settle } from './settling.ts';

/** What a language model used for one answer, in tokens. */
export interface TokenUsage {
  /** Of the prompt, those from a cache included. */
  readonly inputTokens: number;
  /** Of these, read from a cache. */
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** The fields of `usage` in the common dialects. */
interface Fields {
  readonly prompt_tokens?: unknown;
  readonly completion_tokens?: unknown;
  readonly prompt_tokens_details?: { readonly cached_tokens?: unknown } | null;
  readonly input_tokens?: unknown;
  readonly output_tokens?: unknown;
  readonly input_tokens_details?: { readonly cached_tokens?: unknown } | null;
  readonly cache_read_input_tokens?: unknown;
  readonly cache_creation_input_tokens?: unknown;
}

/** Where an event or an answer may carry it. */
interface Carrier {
  readonly usage?: Fields | null;
  readonly message?: { readonly usage?: Fields | null } | null;
  readonly response?: { readonly usage?: Fields | null } | null;
}

/**
 * Reads what a language model says that it used, from JSON or from a stream of events, in the dialects of OpenAI and of
 * Anthropic. Of a stream that ends early it tells what was said until then.
 *
 * @returns undefined where the response says nothing of the kind.
 */
export async function readTokenUsage(response: Response): Promise<TokenUsage | undefined> {
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('text/event-stream')) {
    return usageIn(parsed(await response.text()), undefined);
  }
  let usage: TokenUsage | undefined;
  for await (const line of linesOf(response)) {
    if (line.startsWith('data:')) usage = usageIn(parsed(line.slice('data:'.length)), usage);
  }
  return usage;
}

/**
 * Makes a `settle` for a limit that counts tokens. A refused request has used none; one that says nothing of its usage
 * keeps what was reserved.
 *
 * @param limit the name of the limit that counts tokens.
 * @param weigh how many units a usage is; default input and output alike.
 */
export function settleTokens(
  limit: string,
  weigh: (usage: TokenUsage) => number = ({ inputTokens, outputTokens }) =>
    inputTokens + outputTokens,
): Settle {
  return async (response) => {
    if (response.status === 429 || response.status === 503) return { [limit]: 0 };
    const usage = await readTokenUsage(response);
    return usage === undefined ? undefined : { [limit]: weigh(usage) };
  };
}

/** The usage that a value carries, on top of what was known before: events of a stream tell it bit by bit. */
function usageIn(value: unknown, before: TokenUsage | undefined): TokenUsage | undefined {
  if (typeof value !== 'object' || value === null) return before;
  const carrier: Carrier = value;
  const fields = carrier.usage ?? carrier.message?.usage ?? carrier.response?.usage;
  if (typeof fields !== 'object' || fields === null) return before;
  const cachedApart = count(fields.cache_read_input_tokens);
  const created = count(fields.cache_creation_input_tokens) ?? 0;
  const input = count(fields.input_tokens);
  const inputTokens =
    count(fields.prompt_tokens) ??
    (input === undefined ? undefined : input + (cachedApart ?? 0) + created) ??
    before?.inputTokens;
  const outputTokens =
    count(fields.completion_tokens) ?? count(fields.output_tokens) ?? before?.outputTokens;
  if (inputTokens === undefined && outputTokens === undefined) return before;
  const cachedTokens =
    cachedApart ??
    count(fields.prompt_tokens_details?.cached_tokens) ??
    count(fields.input_tokens_details?.cached_tokens) ??
    before?.cachedTokens ??
    0;
  return { inputTokens: inputTokens ?? 0, cachedTokens, outputTokens: outputTokens ?? 0 };
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // `[DONE]`, or an answer cut short: it says nothing of usage.
    return undefined;
  }
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of response.body ?? []) {
    const lines = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split(
      /\r\n|\r|\n/,
    );
    rest = lines.pop() ?? '';
    yield* lines;
  }
  yield rest;
}
