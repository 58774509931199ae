// An API with layered limits: a coarse one by address, one by API key, and one by tenant according to its plan.
// Start it with `node examples/fastify-api.mjs`; with REDIS_URL set, all its processes share their budgets.
import { memoryStore, slidingWindow, tokenBucket } from '@tollgate/core';
import { dashboard } from '@tollgate/dashboard';
import { apiKey, clientIp, tenant, tollgate } from '@tollgate/fastify';
import Fastify from 'fastify';
import { closeOnSignal, isMain, serve } from './serving.mjs';
import { storeFor } from './store.mjs';
import { isFromThisMachine } from './this-machine.mjs';

const PLANS = {
  anonymous: tokenBucket({ capacity: 10, rate: 10, per: '1m' }),
  free: tokenBucket({ capacity: 30, rate: 60, per: '1m' }),
  pro: tokenBucket({ capacity: 100, rate: 1_200, per: '1m' }),
};

/** Stands in for a table of API keys. */
const ACCOUNTS = new Map([
  ['key-acme-web', { tenant: 'acme', plan: 'pro' }],
  ['key-acme-batch', { tenant: 'acme', plan: 'pro' }],
  ['key-birch', { tenant: 'birch', plan: 'free' }],
]);

/**
 * Builds the API.
 *
 * @param {object} [options]
 * @param {import('@tollgate/core').Store} [options.store]
 * @param {import('@tollgate/core').Logger} [options.logger]
 */
export async function buildApi({ store = memoryStore(), logger } = {}) {
  const app = Fastify();
  await app.register(tollgate, {
    store,
    logger,
    limits: [
      // Counts requests, however dear they are. It also holds whoever invents API keys.
      {
        name: 'address',
        by: clientIp(),
        policy: slidingWindow({ limit: 300, window: '1m' }),
        cost: 1,
      },
      // Keeps one key from bursting. Without a key it counts by address.
      { name: 'key', by: apiKey(), policy: tokenBucket({ capacity: 20, rate: 5, per: '1s' }) },
      // What the tenant pays for, over all its keys. Asked once the hook below knows the account.
      {
        name: 'tenant',
        by: tenant((request) => request.account?.tenant),
        policy: (request) => PLANS[request.account?.plan ?? 'anonymous'],
        stage: 'preHandler',
      },
    ],
  });

  // Outside the limits that it shows.
  const page = dashboard(app.tollgate, { authorize: isFromThisMachine, logger });
  await app.register(page.fastify, { prefix: '/tollgate' });

  // Behind the plugin's own onRequest hook, so that a flood is refused before any key is looked up.
  app.decorateRequest('account', undefined);
  app.addHook('onRequest', async (request, reply) => {
    const key = request.headers['x-api-key'];
    if (key === undefined) return;
    request.account = ACCOUNTS.get(key);
    if (request.account === undefined) return reply.code(401).send({ error: 'Unknown API key.' });
  });

  app.get('/quotes', () => ({ quote: 'Well begun is half done.' }));
  app.get('/search', { config: { rateLimit: { cost: 5 } } }, () => ({ hits: [] }));
  app.get('/export', { config: { rateLimit: { cost: exportCost } } }, ({ query }) => ({
    weeks: weeksOf(query),
  }));
  app.get('/health', { config: { rateLimit: false } }, () => ({ ok: true }));
  return app;
}

/** One unit a week, from the tenant's budget only: the limit by key still takes 1. */
function exportCost({ query }) {
  return { tenant: weeksOf(query) };
}

function weeksOf({ days }) {
  return Math.min(10, Math.max(1, Math.ceil(Number(days) / 7) || 1));
}

if (isMain(import.meta.url)) {
  const { store, where } = storeFor('fastify-api');
  const app = await buildApi({ store });
  const url = await serve('PORT', async (port, host) => {
    await app.listen({ port, host });
    return app.server;
  });
  closeOnSignal(() => app.close());
  console.log(`An API with layered limits, at ${url}
Its budgets are ${where}

Anonymous: 10 at once, then 10 a minute
  curl -i ${url}/quotes

A tenant on the free plan: 30 at once, then 60 a minute; a search costs 5, an export 1 a week
  curl -i -H 'X-API-Key: key-birch' ${url}/search
  curl -i -H 'X-API-Key: key-birch' '${url}/export?days=60'

Two keys of one tenant on the pro plan, which share its budget
  curl -i -H 'X-API-Key: key-acme-web' ${url}/quotes
  curl -i -H 'X-API-Key: key-acme-batch' ${url}/quotes

Never limited
  curl -i ${url}/health

Who is limited, to be looked at, reset or banned; only by browsers on this machine
  ${url}/tollgate

Ctrl-C stops it.`);
}
