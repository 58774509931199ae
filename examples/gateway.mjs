// Three hops, as real systems layer them: a gateway that limits by address and by API key, a service behind it that
// limits by tenant and by operation, and a provider that the service calls within the provider's own limits.
// Start it with `node examples/gateway.mjs`.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createLimiter, fixedWindow, memoryStore, tokenBucket } from '@tollgate/core';
import { apiKey, clientIp, rateLimit } from '@tollgate/express';
import { everyone, tenant, tollgate } from '@tollgate/fastify';
import { createFetch, outcomeOf } from '@tollgate/fetch';
import express from 'express';
import Fastify from 'fastify';
import { closeOnSignal, isMain, serve } from './serving.mjs';

const silent = { warn() {}, error() {} };

/** Stands in for a table of API keys. */
const TENANTS = new Map([
  ['key-acme', 'acme'],
  ['key-birch', 'birch'],
]);

/**
 * The third hop: somebody else's API. It gives our account two translations a second.
 *
 * @param {{ store?: import('@tollgate/core').Store }} [options]
 */
export function buildProvider({ store = memoryStore() } = {}) {
  const app = Fastify();
  app.register(tollgate, {
    store,
    logger: silent,
    limits: [
      {
        name: 'account',
        by: everyone(),
        policy: tokenBucket({ capacity: 2, rate: 2, per: '1s' }),
      },
    ],
  });
  app.post('/translate', async ({ body }) => ({ text: String(body.text).toUpperCase() }));
  return app;
}

/**
 * The second hop: our service. Only the gateway can reach it, which tells it the tenant.
 *
 * @param {{ provider: string, store?: import('@tollgate/core').Store, maxWaitMs?: number }} options
 * `maxWaitMs`: how long a request may wait for the provider, as its own caller waits too
 */
export function buildService({ provider, store = memoryStore(), maxWaitMs = 1_500 }) {
  const app = Fastify();
  const toProvider = createFetch({
    // All of the service's instances share this through their store; the provider counts our account as one.
    limiter: createLimiter({
      store,
      limits: [{ name: 'provider', policy: tokenBucket({ capacity: 2, rate: 2, per: '1s' }) }],
    }),
    keys: { provider: 'account' },
    maxWaitMs,
    pace: true,
    // Somebody waits for the answer: better to say no in time than to be right too late.
    retry: { retries: 1, maxTotalMs: maxWaitMs },
  });

  app.register(async (limited) => {
    const byTenant = tenant(({ headers }) => headers['x-tenant']);
    await limited.register(tollgate, {
      store,
      logger: silent,
      limits: [{ name: 'tenant', by: byTenant, policy: fixedWindow({ limit: 60, window: '1m' }) }],
    });
    const translations = {
      name: 'translations',
      by: byTenant,
      policy: fixedWindow({ limit: 5, window: '1m' }),
    };
    limited.get('/status', () => ({ ok: true }));
    limited.post('/translate', { config: { rateLimit: { limits: [translations] } } }, translate);
  });

  async function translate({ body }, reply) {
    let response;
    try {
      response = await toProvider(`${provider}/translate`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      });
    } catch (error) {
      // No place in time: our own limit for the provider, or what the provider said before.
      if (error.code !== 'TOLLGATE_WAIT') throw error;
      return busy(reply, error.decision?.retryAfterMs);
    }
    // The provider's limit is ours, not the tenant's: its RateLimit fields end here.
    if (response.status === 429) return busy(reply, outcomeOf(response)?.serverMs);
    return response.json();
  }
  return app;
}

/** The service cannot: 503, since the caller is within all limits of theirs. When it can is passed on. */
function busy(reply, retryAfterMs = 1_000) {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
  return reply.code(503).header('Retry-After', seconds).send({ error: 'The provider is busy.' });
}

/** The fields of limits of the service that the gateway hands on. */
const MERGED = ['ratelimit', 'ratelimit-policy'];

/**
 * The first hop: the gateway. It knows addresses and API keys, and nothing of what a request does.
 *
 * @param {{ service: string, store?: import('@tollgate/core').Store }} options
 */
export function buildGateway({ service, store = memoryStore() }) {
  const app = express();
  app.disable('x-powered-by');
  // The form of the current draft alone: a list, to which a service's own limits can be added.
  const gate = rateLimit({
    store,
    logger: silent,
    headers: ['draft-11'],
    limits: [
      {
        name: 'address',
        by: clientIp(),
        policy: tokenBucket({ capacity: 50, rate: 10, per: '1s' }),
      },
      { name: 'key', by: apiKey(), policy: tokenBucket({ capacity: 20, rate: 5, per: '1s' }) },
    ],
  });
  app.use(gate);
  // A gateway retries nothing: its client and the service do, and their retries would multiply.
  const toService = createFetch({ retry: false });

  app.use(async (request, response) => {
    const name = TENANTS.get(request.get('x-api-key'));
    if (name === undefined) return response.status(401).json({ error: 'Unknown API key.' });
    const { method } = request;
    const answer = await toService(`${service}${request.url}`, {
      method,
      headers: {
        'X-Tenant': name,
        ...(request.get('content-type') && { 'Content-Type': request.get('content-type') }),
      },
      ...(method !== 'GET' && method !== 'HEAD' && { body: request, duplex: 'half' }),
    });
    response.status(answer.status);
    for (const field of ['content-type', 'retry-after', 'cache-control']) {
      if (answer.headers.has(field)) response.set(field, answer.headers.get(field));
    }
    for (const field of MERGED) mergeField(response, field, answer.headers.get(field));
    return response.send(Buffer.from(await answer.arrayBuffer()));
  });
  return app;
}

/** Adds the service's limits behind the gateway's: members of one list, told apart by their names. */
function mergeField(response, field, value) {
  const own = response.get(field);
  if (value !== null) response.set(field, own === undefined ? value : `${own}, ${value}`);
}

/** Starts all three. Returns the gateway's address, and what closes them. */
export async function startAll(options = {}) {
  const provider = buildProvider(options);
  const providerUrl = await provider.listen({ port: 0, host: '127.0.0.1' });
  const service = buildService({ provider: providerUrl, ...options });
  const serviceUrl = await service.listen({ port: 0, host: '127.0.0.1' });
  const gateway = createServer(buildGateway({ service: serviceUrl, ...options }));
  const url = await serve('PORT', async (port, host) => {
    await once(gateway.listen(port, host), 'listening');
    return gateway;
  });
  const close = async () => {
    gateway.close();
    gateway.closeAllConnections();
    await service.close();
    await provider.close();
  };
  return { url, close };
}

if (isMain(import.meta.url)) {
  const { url, close } = await startAll();
  closeOnSignal(close);
  console.log(`A gateway in front of a service that calls a provider, at ${url}

A tenant's translations: 5 a minute, through a provider that does 2 a second
  curl -i -H 'X-API-Key: key-acme' -H 'Content-Type: application/json' -d '{"text":"hi"}' ${url}/translate

Limited by address and key at the gateway, and by tenant behind it
  curl -i -H 'X-API-Key: key-birch' ${url}/status

Ctrl-C stops all three.`);
}
