// A gateway in front of a language model. Every API key has requests a minute, tokens a minute and streams at a time,
// as its plan says, and all are asked together. What a request costs is known only when the answer has ended, so the
// most that it can cost is reserved when it comes, and corrected then.
// Start it with `node examples/llm-gateway.mjs`; with REDIS_URL set, all its processes share their budgets.
import { Readable } from 'node:stream';
import { concurrency, memoryStore, slidingWindow, tokenBucket } from '@tollgate/core';
import { bearerToken, clientIp, tollgate } from '@tollgate/fastify';
import Fastify from 'fastify';
import { Meter, tokensIn } from './meter.mjs';
import { buildModel } from './model.mjs';
import { closeOnSignal, isMain, serve } from './serving.mjs';
import { storeFor } from './store.mjs';

const perMinute = (rate) => tokenBucket({ capacity: rate, rate, per: '1m' });

const PLANS = {
  free: { requests: perMinute(10), tokens: perMinute(600), streams: concurrency({ limit: 2 }) },
  pro: { requests: perMinute(300), tokens: perMinute(60_000), streams: concurrency({ limit: 20 }) },
};

/** Stands in for a table of API keys. */
const KEYS = new Map([
  ['key-free', 'free'],
  ['key-pro', 'pro'],
]);

const BODY = {
  type: 'object',
  required: ['messages'],
  properties: {
    model: { type: 'string', default: 'honest' },
    max_tokens: { type: 'integer', minimum: 1, maximum: 4_096, default: 256 },
    messages: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        required: ['content'],
        properties: { content: { type: 'string' } },
      },
    },
  },
};

const consoleLogger = {
  warn: (details, message) => console.warn(message, details),
  error: (details, message) => console.error(message, details),
};

const promptTokens = ({ messages }) => tokensIn(messages.map(({ content }) => content).join(' '));

/**
 * Builds the gateway.
 *
 * @param {object} options
 * @param {string} options.model the base URL of the model's API
 * @param {import('@tollgate/core').Store} [options.store]
 * @param {import('@tollgate/core').Logger} [options.logger] told where the model does not say what it used
 */
export async function buildGateway({ model, store = memoryStore(), logger = consoleLogger }) {
  const app = Fastify();
  const byKey = bearerToken();
  // Behind the body, whose length the cost is made of; all three in one step, so that a refusal by one costs nothing.
  const limit = (name, more) => ({
    name,
    by: byKey,
    policy: ({ plan }) => PLANS[plan][name],
    stage: 'preHandler',
    ...more,
  });
  await app.register(tollgate, {
    store,
    logger,
    limits: [
      // Holds whoever invents keys, before the body is read.
      { name: 'address', by: clientIp(), policy: slidingWindow({ limit: 600, window: '1m' }) },
      limit('requests'),
      limit('tokens', { cost: ({ body }) => promptTokens(body) + body.max_tokens }),
      limit('streams'),
    ],
  });

  app.decorateRequest('plan', undefined);
  app.addHook('onRequest', async (request, reply) => {
    const [, key] = request.headers.authorization?.match(/^Bearer (\S+)$/i) ?? [];
    request.plan = KEYS.get(key);
    if (request.plan === undefined) return reply.code(401).send({ error: 'Unknown API key.' });
  });

  app.post('/v1/chat/completions', { schema: { body: BODY } }, async (request, reply) => {
    const { body, rateLimit: decision } = request;
    const meter = new Meter(promptTokens(body));
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    const answer = await fetch(`${model}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
      signal: gone.signal,
    }).catch((error) => error);
    if (!(answer instanceof Response && answer.ok)) {
      // A model that was never reached used nothing; a caller who left may have had the prompt read.
      await decision.settle({ tokens: gone.signal.aborted ? meter.streamed : 0 });
      return reply.code(502).send({ error: 'The model does not answer.' });
    }
    reply.header('Content-Type', 'text/event-stream').header('Cache-Control', 'no-store');
    return reply.send(Readable.from(metered(answer.body, meter, decision, logger)));
  });

  // What is left, for people and dashboards; asking is free.
  app.get('/v1/budget', { config: { rateLimit: false } }, async (request) => {
    const { requests, tokens } = PLANS[request.plan];
    const key = byKey(request);
    const { verdicts } = await app.tollgate.limiter.peek(
      { requests: key, tokens: key },
      { policies: { requests, tokens } },
    );
    return Object.fromEntries(verdicts.map(({ name, remaining }) => [name, remaining]));
  });
  return app;
}

/** Passes an answer on as it comes, and settles before its end is seen: the next request finds the true budget. */
async function* metered(body, meter, decision, logger) {
  let isWhole = false;
  try {
    for await (const bytes of body) {
      meter.read(bytes);
      yield bytes;
    }
    isWhole = true;
  } finally {
    // Cut short, by the caller or by the model: what was streamed until then was used.
    const tokens = isWhole ? meter.used : meter.streamed;
    try {
      await decision.settle({ tokens });
    } catch (error) {
      logger.warn({ err: error }, 'the model did not say what it used; the reservation stays');
    }
  }
}

if (isMain(import.meta.url)) {
  const { store, where } = storeFor('llm-gateway');
  const provider = buildModel();
  const model = await provider.listen({ port: 0, host: '127.0.0.1' });
  const app = await buildGateway({ model, store });
  const url = await serve('PORT', async (port, host) => {
    await app.listen({ port, host });
    return app.server;
  });
  closeOnSignal(() => Promise.all([app.close(), provider.close()]));
  const curl = (key, path, body = '') =>
    `  curl -i -N -H 'Authorization: Bearer ${key}'${body && ` -H 'Content-Type: application/json' -d '${body}'`} ${url}${path}`;
  const ask = (key, max_tokens) =>
    curl(
      key,
      '/v1/chat/completions',
      JSON.stringify({ max_tokens, messages: [{ role: 'user', content: 'Say 20 words.' }] }),
    );
  console.log(`A gateway in front of a language model, at ${url}
Its budgets are ${where}

The free plan: 10 requests and 600 tokens a minute. This reserves 404 tokens, and uses 23 of them
${ask('key-free', 400)}
What is left then
${curl('key-free', '/v1/budget')}

More than the plan ever allows at once: refused, and no time would help
${ask('key-free', 600)}

The pro plan: 300 requests and 60,000 tokens a minute
${ask('key-pro', 4_000)}

Ctrl-C stops it.`);
}
