// Stands for a provider of language models: answers as they do, in a stream of events, a token at a time.
// A token here is a word. It answers as many as it is asked for: "Say 20 words." gets 20, if `max_tokens` allows them.
import { setTimeout as sleep } from 'node:timers/promises';
import { Readable } from 'node:stream';
import Fastify from 'fastify';

const WORDS = 'the model says one word after another and none of them means a thing'.split(' ');

/** What each model tells of its usage at the end: the truth, nothing, or what nobody can count. */
const USAGE = {
  honest: (prompt, completion) => ({ prompt_tokens: prompt, completion_tokens: completion }),
  silent: () => undefined,
  confused: () => ({ prompt_tokens: 'some', completion_tokens: -3 }),
};

/**
 * Builds the provider's API.
 *
 * @param {object} [options]
 * @param {(index: number) => unknown} [options.beforeToken] awaited before each token; default 20 ms
 */
export function buildModel({ beforeToken = () => sleep(20) } = {}) {
  const app = Fastify();
  app.post('/v1/chat/completions', ({ body }, reply) => {
    const usageOf = USAGE[body.model];
    if (usageOf === undefined) return reply.code(404).send({ error: 'There is no such model.' });
    const prompt = body.messages.map(({ content }) => content).join(' ');
    const asked = Number(/Say (\d+) words/.exec(prompt)?.[1] ?? WORDS.length);
    const length = Math.min(asked, body.max_tokens);
    const usage = body.stream_options?.include_usage ? usageOf(words(prompt), length) : undefined;
    reply.header('Content-Type', 'text/event-stream');
    return reply.send(Readable.from(events(length, usage, beforeToken)));
  });
  return app;
}

async function* events(length, usage, beforeToken) {
  for (let index = 0; index < length; index++) {
    await beforeToken(index);
    const content = `${WORDS[index % WORDS.length]} `;
    yield event({ choices: [{ index: 0, delta: { content } }] });
  }
  if (usage !== undefined) yield event({ choices: [], usage });
  yield 'data: [DONE]\n\n';
}

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;
const words = (text) => text.split(/\s+/).filter((word) => word !== '').length;
