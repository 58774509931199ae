// Ten workers send messages through one provider, which takes 100 a second from all of them together. With REDIS_URL
// each runs in a thread of its own and they share the limit through Redis; without it they share one in memory.
// MESSAGES says how many each sends. Start it with `node examples/outbound.mjs`.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { createLimiter, memoryStore, tokenBucket } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { createFetch } from '@tollgate/fetch';
import { Redis } from 'ioredis';
import { isMain, serve } from './serving.mjs';

const PER_SECOND = 100;

/** Ten at once, half of what the provider takes: on the way to it messages draw together. */
const POLICY = tokenBucket({ capacity: 10, rate: PER_SECOND, per: '1s' });

/**
 * Makes the provider: it takes 100 messages a second and twenty at once, and notes when each arrives.
 *
 * @param {number[]} arrivals
 */
function buildProvider(arrivals) {
  const limiter = createLimiter({
    limits: [
      { name: 'account', policy: tokenBucket({ capacity: 20, rate: PER_SECOND, per: '1s' }) },
    ],
  });
  return createServer((request, response) => {
    arrivals.push(performance.now());
    const { allowed, retryAfterMs } = limiter.consume({ account: 'ours' });
    request.resume();
    if (allowed) return response.writeHead(202).end();
    const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
    return response.writeHead(429, { 'Retry-After': seconds }).end();
  });
}

/**
 * One worker: it sends its messages one after another, each as soon as it may.
 *
 * @param {import('@tollgate/core').Store} store
 * @param {string} url
 * @param {number} messages
 */
async function work(store, url, messages) {
  const limiter = createLimiter({ store, limits: [{ name: 'provider', policy: POLICY }] });
  const send = createFetch({ limiter, keys: { provider: 'sms' }, maxWaitMs: 30_000 });
  for (let i = 0; i < messages; i++) {
    const response = await send(url, { method: 'POST', body: `Message ${i}` });
    await response.body?.cancel();
  }
  await limiter.close();
}

/** What a worker does in a thread of its own. */
async function workInThread({ redisUrl, prefix, url, messages }) {
  const redis = new Redis(redisUrl);
  const store = redisStore(redis, { prefix, deadlineMs: 2_000 });
  // Connected before it is asked, so that all begin at once.
  await redis.ping();
  parentPort.postMessage('ready');
  await once(parentPort, 'message');
  await work(store, url, messages);
  redis.disconnect();
  parentPort.close();
}

/** Starts the threads, lets them go at once, and waits until all are done. */
async function workInThreads(workers, data) {
  const threads = Array.from(
    { length: workers },
    () => new Worker(new URL(import.meta.url), { workerData: data }),
  );
  const ended = threads.map(async (thread) => {
    const [status] = await once(thread, 'exit');
    if (status !== 0) throw new Error(`A worker ended with ${status}.`);
  });
  await Promise.all(threads.map((thread) => once(thread, 'message')));
  for (const thread of threads) thread.postMessage('go');
  await Promise.all(ended);
}

/**
 * Lets the workers send, and measures when the messages arrive.
 *
 * @param {{ url: string, arrivals: number[], workers?: number, messages?: number, redisUrl?: string }} options
 */
export async function measure({ url, arrivals, workers = 10, messages = 50, redisUrl }) {
  if (redisUrl === undefined) {
    const store = memoryStore();
    await Promise.all(Array.from({ length: workers }, () => work(store, url, messages)));
  } else {
    const prefix = `outbound:${process.pid}:${Date.now()}:`;
    await workInThreads(workers, { redisUrl, prefix, url, messages });
  }
  const all = workers * messages;
  const seconds = (arrivals.at(-1) - arrivals[0]) / 1_000;
  return {
    messages: all,
    /** More requests than messages: some were refused by the provider and sent again. */
    refused: arrivals.length - all,
    seconds,
    perSecond: (arrivals.length - 1) / seconds,
    busiestSecond: busiest(arrivals, 1_000),
  };
}

/** The most that arrived in any span of so many milliseconds. */
function busiest(arrivals, spanMs) {
  let first = 0;
  let most = 0;
  for (const [index, atMs] of arrivals.entries()) {
    while (atMs - arrivals[first] >= spanMs) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}

/** Starts the provider. Returns its address and what has arrived there. */
export async function startProvider() {
  const arrivals = [];
  const server = buildProvider(arrivals);
  const url = await serve('PORT', async (port, host) => {
    await once(server.listen(port, host), 'listening');
    return server;
  });
  return { url, arrivals, close: () => server.close() };
}

if (!isMainThread) {
  await workInThread(workerData);
} else if (isMain(import.meta.url)) {
  const { REDIS_URL, MESSAGES } = process.env;
  const { url, arrivals, close } = await startProvider();
  const redisUrl = REDIS_URL || undefined;
  const where = redisUrl === undefined ? 'memory' : 'Redis';
  console.log(`Ten workers share ${PER_SECOND} messages a second through ${where}\n`);
  const { messages, refused, seconds, perSecond, busiestSecond } = await measure({
    url,
    arrivals,
    messages: Number(MESSAGES || 50),
    redisUrl,
  });
  close();
  console.log(`  messages sent            ${messages}
  refused by the provider  ${refused}
  seconds                  ${seconds.toFixed(2)}
  a second                 ${perSecond.toFixed(1)}
  in the busiest second    ${busiestSecond}`);
}
