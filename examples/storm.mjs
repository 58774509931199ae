// Many clients call a server at once that can serve a tenth of them a second. Compares what they do when it refuses
// them: retry at once, back off, or leave it to @tollgate/fetch. Start it with `node examples/storm.mjs`.
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, tokenBucket } from '@tollgate/core';
import { everyone, tollgate } from '@tollgate/fastify';
import { createFetch } from '@tollgate/fetch';
import Fastify from 'fastify';
import { isMain } from './serving.mjs';

/** What a request costs the server before it can be judged, and what serving one takes on top, in milliseconds. */
const JUDGE_MS = 6;
const SERVE_MS = 30;
/** How many it serves at once, when nobody has called for a while. */
const BURST = 5;
/** How long a client waits for an answer. What a server works at after that is wasted. */
const TIMEOUT_MS = 2_000;

/**
 * Starts a server with one worker. It serves `rate` requests a second and turns the others away, which takes time too.
 *
 * @param {number} rate
 */
async function startServer(rate) {
  const app = Fastify({ forceCloseConnections: true });
  const events = [];
  const start = performance.now();
  const note = (event) => events.push({ event, atMs: performance.now() - start });
  let freeAt = 0;
  const work = (ms) => {
    freeAt = Math.max(freeAt, performance.now()) + ms;
    return sleep(freeAt - performance.now());
  };

  app.addHook('onRequest', async () => {
    note('sent');
    await work(JUDGE_MS);
  });
  await app.register(tollgate, {
    limits: [
      {
        name: 'server',
        by: everyone(),
        policy: tokenBucket({ capacity: BURST, rate, per: '1s' }),
      },
    ],
    logger: { warn() {}, error: console.error },
  });
  app.get('/', async () => {
    await work(SERVE_MS);
    note('answered');
    return 'served';
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return { url, events, note, close: () => app.close() };
}

/** A request that waits for its answer for a bounded time. */
const send = (input, init) =>
  fetch(input, {
    ...init,
    signal: AbortSignal.any([
      AbortSignal.timeout(TIMEOUT_MS),
      ...(init?.signal ? [init.signal] : []),
    ]),
  });

/** Repeats a request until it is served, and sleeps in between. */
async function repeat(url, signal, delayMs) {
  for (let retry = 0; ; retry++) {
    const response = await send(url, { signal }).catch(() => undefined);
    await response?.body?.cancel();
    if (response?.ok) return;
    await sleep(delayMs(retry), undefined, { signal });
  }
}

/** Everyone retries until they are served, however long it takes. */
const PERSISTENT = { retries: 10_000, maxTotalMs: Infinity, networkErrors: true };

/** What a client does to be served once. Each is made for one run, with the rate of the server. */
const STRATEGIES = {
  'retry after 100 ms': () => (url, signal) => repeat(url, signal, () => 100),
  'back off, 100 ms doubled up to 5 s': () => (url, signal) =>
    repeat(url, signal, (retry) => Math.min(5_000, 100 * 2 ** retry)),
  '@tollgate/fetch': () => {
    // Each client is on its own, as if in a process of its own.
    return async (url, signal) => {
      const obeying = createFetch({ fetch: send, retry: PERSISTENT });
      await (await obeying(url, { signal })).text();
    };
  },
  '@tollgate/fetch, one limiter for all': (rate) => {
    const policy = tokenBucket({ capacity: BURST, rate, per: '1s' });
    const limiter = createLimiter({ limits: [{ name: 'server', policy }] });
    const limited = createFetch({
      limiter,
      keys: { server: 'all' },
      maxWaitMs: Infinity,
      fetch: send,
      retry: PERSISTENT,
    });
    return async (url, signal) => void (await (await limited(url, { signal })).text());
  },
};

/**
 * Lets the clients go at once and waits until all are served, or the time is over.
 *
 * @param {string} strategy
 * @param {{ clients: number, rate: number, mostMs: number }} options `rate`: what the server serves a second
 */
async function run(strategy, { clients, rate, mostMs }) {
  const server = await startServer(rate);
  const client = STRATEGIES[strategy](rate);
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const timer = setTimeout(() => over.abort(), mostMs);
  const start = performance.now();
  const goes = async () => {
    await client(server.url, over.signal);
    server.note('served');
  };
  await Promise.allSettled(Array.from({ length: clients }, goes));
  clearTimeout(timer);
  const endMs = performance.now() - start;
  await server.close();
  const count = (event) => server.events.filter((each) => each.event === event).length;
  const served = count('served');
  return {
    strategy,
    sent: count('sent'),
    served,
    /** Served to a client that did not wait any more. */
    wasted: count('answered') - served,
    /** Undefined when not all were served in time. */
    drainedMs: over.signal.aborted ? undefined : endMs,
    /** Clients served a second. */
    goodput: served / (endMs / 1_000),
    events: server.events,
  };
}

/**
 * Runs all strategies, each against a server of its own.
 *
 * @param {{ clients?: number, rate?: number, mostMs?: number, atOnce?: boolean }} [options] `atOnce`: side by side,
 * which is quicker and less even
 */
export async function compare({
  clients = 200,
  rate = clients / 10,
  mostMs = 60_000,
  atOnce = false,
} = {}) {
  const options = { clients, rate, mostMs };
  const strategies = Object.keys(STRATEGIES);
  if (atOnce) return Promise.all(strategies.map((strategy) => run(strategy, options)));
  const runs = [];
  for (const strategy of strategies) runs.push(await run(strategy, options));
  return runs;
}

/** The comparison as a table in Markdown. */
export function tableOf(runs) {
  const seconds = (ms) => (ms === undefined ? 'not in a minute' : `${(ms / 1_000).toFixed(1)} s`);
  const rows = runs.map(({ strategy, sent, served, wasted, goodput, drainedMs }) => [
    strategy,
    sent,
    served,
    wasted,
    `${goodput.toFixed(1)} / s`,
    seconds(drainedMs),
  ]);
  const heading = [
    'clients that',
    'requests sent',
    'served',
    'served in vain',
    'goodput',
    'all served after',
  ];
  return [heading, heading.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}

if (isMain(import.meta.url)) {
  console.log('200 clients at once, a server that serves 20 a second\n');
  console.log(tableOf(await compare()));
}
