import { createLimiter, fixedWindow, memoryStore } from '@tollgate/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { createFetch, type FetchOptions, settleTokens, type Usage } from '../src/index.ts';
import { Diary, pass, Provider, soon, stopTime, URL_OF_PROVIDER } from './world.ts';

beforeEach(stopTime);

const encoder = new TextEncoder();

function budget(tokens: number) {
  const limiter = createLimiter({
    store: memoryStore({ clock: () => Math.round(Date.now() * 1_000) }),
    limits: [
      { name: 'requests', policy: fixedWindow({ limit: 60, window: '1d' }) },
      { name: 'tokens', policy: fixedWindow({ limit: tokens, window: '1d' }) },
    ],
  });
  const keys = { requests: 'a', tokens: 'a' };
  return { limiter, keys, left: () => limiter.peek({ tokens: 'a' }).remaining };
}

const answerOf = (usage: object): Response => Response.json({ choices: [], usage });
const usage = (total: number): object => ({ prompt_tokens: 10, completion_tokens: total - 10 });

function streamed(events: readonly string[], type = 'text/event-stream'): Response {
  const parts = [...events];
  const body = new ReadableStream({
    async pull(stream) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      const part = parts.shift();
      if (part === undefined) stream.close();
      else stream.enqueue(encoder.encode(part));
    },
  });
  return new Response(body, { headers: { 'Content-Type': type } });
}

describe('a budget of tokens', () => {
  it('reserves an estimate, and settles for what was used', async () => {
    const { limiter, keys, left } = budget(100);
    const provider = new Provider(async () => {
      await new Promise((resolve) => setTimeout(resolve, 200));
      return answerOf(usage(58));
    });
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys,
      cost: { tokens: 60 },
      settle: settleTokens('tokens'),
      maxWaitMs: 100,
    });
    const calls = Array.from({ length: 5 }, async () => (await fetch(URL_OF_PROVIDER)).json());
    const ends = await soon(Promise.allSettled(calls));
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(left()).toBe(42);
    expect(limiter.consume(keys, { cost: { tokens: 40 } }).allowed).toBe(true);
    expect(limiter.consume(keys, { cost: { tokens: 10 } }).allowed).toBe(false);
    expect(limiter.peek({ requests: 'a' }).remaining).toBe(58);
  });

  it('lets the next in line go with what was given back', async () => {
    const { limiter, keys, left } = budget(100);
    const provider = new Provider(() => answerOf(usage(20)));
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys,
      cost: { tokens: 60 },
      settle: settleTokens('tokens'),
      maxWaitMs: Infinity,
    });
    await soon(Promise.all([1, 2, 3].map(async () => (await fetch(URL_OF_PROVIDER)).json())));
    expect(left()).toBe(40);
  });

  it('is settled once the body was read: the caller never sees it otherwise', async () => {
    const { limiter, keys, left } = budget(100);
    const fetch = createFetch({
      fetch: new Provider(() => answerOf(usage(30))).fetch,
      limiter,
      keys,
      cost: { tokens: 60 },
      settle: settleTokens('tokens'),
    });
    const response = await fetch(URL_OF_PROVIDER);
    expect(left()).toBe(40);
    expect(await response.json()).toMatchObject({ usage: usage(30) });
    expect(left()).toBe(70);
  });

  it('gives back what a refused attempt had reserved', async () => {
    const { limiter, keys, left } = budget(100);
    const provider = new Provider((_request, nth) =>
      nth < 2 ? new Response('busy', { status: 429 }) : answerOf(usage(25)),
    );
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys,
      cost: { tokens: 60 },
      settle: settleTokens('tokens'),
    });
    await (await soon(fetch(URL_OF_PROVIDER))).text();
    expect(left()).toBe(75);
    // The requests were sent.
    expect(limiter.peek({ requests: 'a' }).remaining).toBe(57);
  });
});

describe('a streamed answer', () => {
  const openAi = [
    'data: {"choices":[{"delta":{"content":"Hel"}}],"usage":null}\n\n',
    'data: {"choices":[{"delta":{"content":"lo"}}],"usage":null}\n\ndata: {"cho',
    'ices":[],"usage":{"prompt_tokens":10,"completion_tokens":21}}\n\ndata: [DONE]\n\n',
  ];
  const anthropic = [
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":12,"cache_read_input_tokens":8,"output_tokens":1}}}\n\n',
    'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hello"}}\r\n\r\n',
    'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":5}}\n\n',
    'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":15}}\n\n',
  ];

  const settledFetch = (answer: () => Response, options: Partial<FetchOptions> = {}) => {
    const { limiter, keys, left } = budget(100);
    const fetch = createFetch({
      fetch: new Provider(answer).fetch,
      limiter,
      keys,
      cost: { tokens: 60 },
      settle: settleTokens('tokens'),
      ...options,
    });
    return { fetch, left };
  };

  it.each([
    ['OpenAI', openAi, 31],
    ['Anthropic', anthropic, 35],
  ])('of %s is passed on part by part, and settled at its end', async (_name, events, used) => {
    const { fetch, left } = settledFetch(() => streamed(events));
    const response = await soon(fetch(URL_OF_PROVIDER));
    let text = '';
    const decoder = new TextDecoder();
    const reading = (async () => {
      for await (const part of response.body ?? []) {
        expect(left()).toBe(40);
        text += decoder.decode(part as Uint8Array);
      }
    })();
    await soon(reading);
    expect(text).toBe(events.join(''));
    expect(left()).toBe(100 - used);
  });

  it('that is cancelled ends there, also for the server, and what was said until then counts', async () => {
    let cancelled = false;
    const { fetch, left } = settledFetch(
      () =>
        new Response(
          new ReadableStream({
            start: (stream) => stream.enqueue(encoder.encode(anthropic.slice(0, 3).join(''))),
            cancel: () => void (cancelled = true),
          }),
          { headers: { 'Content-Type': 'text/event-stream' } },
        ),
    );
    const response = await soon(fetch(URL_OF_PROVIDER));
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect(cancelled).toBe(true);
    expect(left()).toBe(100 - 25);
  });

  it('that breaks off is an error for the caller, and keeps what was reserved', async () => {
    const diary = new Diary();
    const { fetch, left } = settledFetch(
      () =>
        new Response(
          new ReadableStream({
            start: (stream) => stream.enqueue(encoder.encode('{"usage":')),
            pull: (stream) => stream.error(new TypeError('terminated')),
          }),
        ),
      diary.observers,
    );
    const response = await soon(fetch(URL_OF_PROVIDER));
    await expect(soon(response.text())).rejects.toThrow('terminated');
    await pass(10);
    expect(left()).toBe(40);
    expect(diary.logged).toHaveLength(1);
  });

  it('keeps what the platform says of a response', async () => {
    const { fetch } = settledFetch(() => {
      const response = streamed(openAi);
      return Object.defineProperties(response, {
        url: { value: 'https://provider.example/elsewhere' },
        redirected: { value: true },
        type: { value: 'basic' },
      });
    });
    const response = await soon(fetch(URL_OF_PROVIDER));
    expect(response).toBeInstanceOf(Response);
    for (const each of [response, response.clone()]) {
      const { url, redirected, type, status } = each;
      expect({ url, redirected, type, status }).toEqual({
        url: 'https://provider.example/elsewhere',
        redirected: true,
        type: 'basic',
        status: 200,
      });
    }
  });
});

describe('what settle says', () => {
  async function leftAfter(said: unknown): Promise<{ left: number; logged: readonly string[] }> {
    const { limiter, keys, left } = budget(100);
    const diary = new Diary();
    const fetch = createFetch({
      fetch: new Provider(() => new Response('served')).fetch,
      limiter,
      keys,
      cost: { tokens: 60 },
      settle: () => said as Usage,
      ...diary.observers,
    });
    await (await soon(fetch(URL_OF_PROVIDER))).text();
    return { left: left(), logged: diary.logged };
  }

  it.each([
    [{ tokens: 0 }, 100],
    [{ tokens: 80 }, 20],
    [{ tokens: 30.2 }, 69],
    [30, 70],
  ])('%j counts', async (said, left) => {
    expect(await leftAfter(said)).toEqual({ left, logged: [] });
  });

  it.each([
    undefined,
    null,
    {},
    { tokens: undefined },
    NaN,
    '80',
    -5,
    Infinity,
    { tokens: -1 },
    { other: 5 },
  ])('%j is not taken for usage: the reservation stays, and somebody is told', async (said) => {
    const { left, logged } = await leftAfter(said);
    expect(left).toBe(40);
    expect(logged).toHaveLength(1);
  });

  it('may be that it failed, or never comes: the caller gets the answer all the same', async () => {
    const { limiter, keys, left } = budget(200);
    const diary = new Diary();
    const provider = new Provider(() => new Response('served'));
    const settles: FetchOptions['settle'][] = [
      () => Promise.reject(new Error('no such field')),
      () => new Promise(() => undefined),
    ];
    for (const settle of settles) {
      const fetch = createFetch({
        fetch: provider.fetch,
        limiter,
        keys,
        cost: { tokens: 60 },
        ...(settle !== undefined && { settle }),
        ...diary.observers,
      });
      const response = await soon(fetch(URL_OF_PROVIDER));
      expect(await soon(response.text())).toBe('served');
    }
    expect(left()).toBe(80);
    expect(diary.logged).toEqual(['settle failed, so what was reserved stays charged']);
  });
});

describe('weights', () => {
  it('charge what the provider charges', async () => {
    const { limiter, keys, left } = budget(10_000);
    const provider = new Provider(() =>
      answerOf({
        prompt_tokens: 10_000,
        prompt_tokens_details: { cached_tokens: 8_000 },
        completion_tokens: 0,
      }),
    );
    const fetch = createFetch({
      fetch: provider.fetch,
      limiter,
      keys,
      cost: { tokens: 2_000 },
      settle: settleTokens(
        'tokens',
        ({ inputTokens, cachedTokens, outputTokens }) =>
          inputTokens - cachedTokens + 4 * outputTokens,
      ),
      maxWaitMs: 10,
    });
    for (let i = 0; i < 5; i++) await (await soon(fetch(URL_OF_PROVIDER))).text();
    expect(left()).toBe(0);
    await expect(soon(fetch(URL_OF_PROVIDER))).rejects.toMatchObject({ code: 'TOLLGATE_WAIT' });
  });
});
