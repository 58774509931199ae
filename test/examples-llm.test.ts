import { memoryStore, type Store } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { type ManualClock, manualClock } from '@tollgate/core/testing';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { build } from './readme/built.ts';
import { curlsOf, start, type Started } from './readme/started.ts';
import { RedisServer } from './redis/server.ts';

interface App {
  readonly listen: (options: object) => Promise<string>;
  readonly close: () => Promise<unknown>;
}

interface Logged {
  readonly message: string;
  readonly error: string;
}

/** What `examples/llm-gateway.mjs` and `examples/model.mjs` export. */
interface GatewayModule {
  readonly buildGateway: (options: object) => Promise<App>;
}
interface ModelModule {
  readonly buildModel: (options: object) => App;
}

/** A question that reserves as many tokens, of which all but `max_tokens` are its text. */
interface Question {
  readonly content: string;
  readonly max_tokens?: number;
  readonly model?: string;
}

interface Budget {
  readonly requests: number;
  readonly tokens: number;
}

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  redis = new Redis(server.port);
});

afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

const STORES: Readonly<Record<string, (clock: ManualClock) => Store>> = {
  memory: (clock) => memoryStore({ clock }),
  Redis: (clock) =>
    redisStore(redis, {
      clock,
      prefix: `${expect.getState().currentTestName}:`,
      deadlineMs: 10_000,
    }),
};

/** Holds the model back: lets it say so many tokens, and no more until it is opened. */
class Turnstile {
  private open: () => void = () => undefined;
  private readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
  private readonly free: number;

  constructor(free: number) {
    this.free = free;
  }

  readonly pass = (index: number): Promise<void> | undefined =>
    index < this.free ? undefined : this.opened;

  release(): void {
    this.open();
  }
}

async function startGateway(
  makeStore: (clock: ManualClock) => Store,
  turnstile = new Turnstile(Infinity),
): Promise<{
  readonly clock: ManualClock;
  readonly logged: readonly Logged[];
  readonly ask: (question: Question, key?: string, signal?: AbortSignal) => Promise<Response>;
  readonly left: (key?: string) => Promise<Budget>;
}> {
  const load = (file: string): Promise<unknown> =>
    import(new URL(`../examples/${file}`, import.meta.url).href);
  const { buildGateway } = (await load('llm-gateway.mjs')) as GatewayModule;
  const { buildModel } = (await load('model.mjs')) as ModelModule;
  const clock = manualClock();
  const logged: Logged[] = [];
  const log = ({ err }: { err?: Error }, message: string): void =>
    void logged.push({ message, error: err?.message ?? '' });
  const upstream = buildModel({ beforeToken: turnstile.pass });
  const model = await upstream.listen({ port: 0, host: '127.0.0.1' });
  const app = await buildGateway({
    model,
    store: makeStore(clock),
    logger: { warn: log, error: log },
  });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(async () => {
    turnstile.release();
    await app.close();
    await upstream.close();
  });
  const headers = (key: string): Record<string, string> => ({ Authorization: `Bearer ${key}` });
  return {
    clock,
    logged,
    ask: ({ content, ...rest }, key = 'key-free', signal) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { ...headers(key), 'Content-Type': 'application/json' },
        body: JSON.stringify({ ...rest, messages: [{ role: 'user', content }] }),
        ...(signal && { signal }),
      }),
    left: async (key = 'key-free') =>
      (await (await fetch(`${url}/v1/budget`, { headers: headers(key) })).json()) as Budget,
  };
}

/** Reads a stream until it has said so many words. Returns what reads the rest. */
async function hear(response: Response, words: number): Promise<() => Promise<string>> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let heard = '';
  const next = async (): Promise<boolean> => {
    const read = await reader?.read();
    heard += decoder.decode(read?.value, { stream: true });
    return read?.done === false;
  };
  const count = (): number => heard.match(/"content"/g)?.length ?? 0;
  while (count() < words && (await next()));
  expect(count()).toBe(words);
  return async () => {
    while (await next());
    return heard;
  };
}

const SAY_20 = 'Say 20 words.'; // 4 tokens by the estimate, 3 by the model

describe.each(Object.entries(STORES))('the gateway, with budgets in %s', (_, makeStore) => {
  it('passes an answer on while it is made, and then gives back what was not used', async () => {
    const turnstile = new Turnstile(5);
    const { ask, left } = await startGateway(makeStore, turnstile);
    const answer = await ask({ content: SAY_20, max_tokens: 400 });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    const told = answer.headers.get('ratelimit');
    expect(told).toMatch(/"requests";r=9;.*"tokens";r=196;.*"streams";r=1/);
    const rest = await hear(answer, 5);
    expect(await left()).toEqual({ requests: 9, tokens: 196 });
    turnstile.release();
    const text = await rest();
    expect(text.match(/"content"/g)).toHaveLength(20);
    expect(text).toContain('"usage":{"prompt_tokens":3,"completion_tokens":20}');
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    // Who has seen the end finds it settled.
    expect(await left()).toEqual({ requests: 9, tokens: 600 - 23 });
  });

  it('refuses for want of tokens, charges nothing for that, and says when they are there', async () => {
    const turnstile = new Turnstile(1);
    const { ask, left, clock } = await startGateway(makeStore, turnstile);
    const question = { content: SAY_20, max_tokens: 400 };
    const first = await ask(question);
    expect(first.status).toBe(200);
    const refused = await ask(question);
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ 'violated-policies': ['tokens'] });
    // 404 are wanted and 196 there; 10 come in a second.
    expect(refused.headers.get('retry-after')).toBe('21');
    expect(await left()).toEqual({ requests: 9, tokens: 196 });
    clock.advance(20_799.999);
    expect((await ask(question)).status).toBe(429);
    clock.advance(0.001);
    const second = await ask(question);
    expect(second.status).toBe(200);
    turnstile.release();
    await Promise.all([first.text(), second.text()]);
  });

  it('owes what an answer took beyond the estimate, and pays it before anything else', async () => {
    const { ask, left, clock } = await startGateway(makeStore);
    // Letters by themselves are a token each, four times what the estimate takes them for.
    const content = `Say 300 words. ${'a '.repeat(300).trim()}`;
    const answer = await ask({ content, max_tokens: 300 });
    expect(answer.headers.get('ratelimit')).toContain(`"tokens";r=${600 - 154 - 300}`);
    await answer.text();
    // 603 were used: 3 more than there are.
    expect(await left()).toEqual({ requests: 9, tokens: 0 });
    const small = { content: 'Hi', max_tokens: 4 };
    const refused = await ask(small);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    clock.advance(799.999);
    expect((await ask(small)).status).toBe(429);
    clock.advance(0.001);
    expect((await ask(small)).status).toBe(200);
  });

  it('settles an answer that its caller left for what was streamed, and frees its place', async () => {
    const { ask, left, logged } = await startGateway(makeStore, new Turnstile(7));
    const caller = new AbortController();
    const question = { content: 'Say 400 words.', max_tokens: 400 };
    const answer = await ask(question, 'key-free', caller.signal);
    await hear(answer, 7);
    expect((await left()).tokens).toBe(600 - 404);
    caller.abort();
    // "the model says one word after another " is 10 by the estimate, and the prompt 4.
    await expect.poll(left).toEqual({ requests: 9, tokens: 600 - 14 });
    expect(logged).toEqual([]);
    const places = async (): Promise<string | null> =>
      (await ask({ content: 'Hi', max_tokens: 1 })).headers.get('ratelimit');
    await expect.poll(places).toContain('"streams";r=1');
  });

  it.each(['silent', 'confused'])(
    'keeps the reservation of a %s model, and says so',
    async (model) => {
      const { ask, left, logged } = await startGateway(makeStore);
      await (await ask({ content: SAY_20, max_tokens: 400, model })).text();
      expect(await left()).toEqual({ requests: 9, tokens: 196 });
      expect(logged).toEqual([
        {
          message: 'the model did not say what it used; the reservation stays',
          error: expect.stringContaining('tokens') as string,
        },
      ]);
    },
  );

  it('lets a key have as many streams at once as its plan says', async () => {
    const turnstile = new Turnstile(1);
    const { ask, left } = await startGateway(makeStore, turnstile);
    const question = { content: 'Hi', max_tokens: 10 };
    const [one, two] = await Promise.all([ask(question), ask(question)]);
    const third = await ask(question);
    expect([one.status, two.status, third.status]).toEqual([200, 200, 429]);
    expect(third.headers.get('retry-after')).toBe('1');
    expect(await third.json()).toMatchObject({ 'violated-policies': ['streams'] });
    expect(await left()).toEqual({ requests: 8, tokens: 600 - 22 });
    expect((await ask(question, 'key-pro')).status).toBe(200);
    turnstile.release();
    await Promise.all([one.text(), two.text()]);
    await expect.poll(async () => (await ask(question)).status).toBe(200);
  });

  it('refuses the eleventh request of a minute, however short, but not on the larger plan', async () => {
    const { ask, left } = await startGateway(makeStore);
    const question = { content: 'Say 1 words.', max_tokens: 1 };
    const say = async (key: string): Promise<Response> => {
      const answer = await ask(question, key);
      await answer.text();
      return answer;
    };
    for (let i = 0; i < 10; i++) expect((await say('key-free')).status).toBe(200);
    const refused = await say('key-free');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '6']);
    expect(await left()).toEqual({ requests: 0, tokens: 600 - 10 * 4 });
    const other = await say('key-pro');
    expect(other.headers.get('ratelimit-policy')).toMatch(/"requests";q=300;.*"tokens";q=60000;/);
    expect(await left('key-pro')).toEqual({ requests: 299, tokens: 60_000 - 4 });
  });

  it('gives tokens back where the model does not answer, and knows no strangers', async () => {
    const { ask, left } = await startGateway(makeStore);
    expect((await ask({ content: SAY_20, model: 'unknown' })).status).toBe(502);
    expect(await left()).toEqual({ requests: 9, tokens: 600 });
    expect((await ask({ content: SAY_20 }, 'key-stranger')).status).toBe(401);
    const keys = await redis.keys('*');
    expect(keys.filter((key) => key.includes('key-free'))).toEqual([]);
  });
});

describe('started directly', () => {
  beforeAll(build, 180_000);

  it('shares its budgets with another through Redis', async () => {
    const env = { REDIS_URL: `redis://127.0.0.1:${server.port}` };
    const startOne = (): Promise<Started> => start('llm-gateway.mjs', 'Ctrl-C stops', env);
    const [one, other] = await Promise.all([startOne(), startOne()]);
    const [ask, look, tooMuch] = curlsOf(one.output());
    const [, lookThere] = curlsOf(other.output());
    for (let i = 0; i < 4; i++) {
      const answer = await ask?.();
      expect(await answer?.text()).toContain('data: [DONE]');
    }
    for (const budget of await Promise.all([look?.(), lookThere?.()])) {
      const { requests, tokens } = (await (budget as Response).json()) as Budget;
      // One comes back every six seconds, which may pass on a slow machine.
      expect(requests).toBeGreaterThanOrEqual(6);
      expect(requests).toBeLessThan(10);
      expect(tokens).toBeGreaterThanOrEqual(600 - 4 * 23);
    }
    const never = await tooMuch?.();
    expect([never?.status, never?.headers.get('retry-after')]).toEqual([429, null]);
    expect(await Promise.all([one.interrupt(), other.interrupt()])).toEqual([0, 0]);
  });
});
