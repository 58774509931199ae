// One process of a fleet of servers that share limits in one Redis, in Fastify or in Express. A request says by headers
// which limits apply to it, by their keys, and what becomes of it. It is told on which port to ask.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { rateLimit } from '@tollgate/express';
import { concurrency, custom, leakyBucket, slidingLog, tollgate } from '@tollgate/fastify';
import { redisStore } from '@tollgate/core/redis';
import express from 'express';
import Fastify from 'fastify';
import { Redis } from 'ioredis';

const SLOW_MACHINE_MS = 20_000;
const [framework, redisPort] = process.argv.slice(2);
const client = new Redis(Number(redisPort), '127.0.0.1');
const keyed = (name, limit) => ({
  name,
  by: custom(({ headers }) => headers[`x-${name}`]),
  ...limit,
});

const gate = {
  store: redisStore(client, { deadlineMs: SLOW_MACHINE_MS }),
  maxWaitMs: SLOW_MACHINE_MS,
  priority: ({ headers }) => headers['x-priority'],
  logger: { warn() {}, error: console.error },
  limits: [
    keyed('failures', { policy: slidingLog({ limit: 5, window: '1h' }), countOnly: 'failures' }),
    keyed('fleet', { policy: concurrency({ limit: 10, reserved: { critical: 0.2 } }) }),
    keyed('mortal', { policy: concurrency({ limit: 3, slotTimeout: '1500ms' }) }),
    keyed('queue', { policy: leakyBucket({ capacity: 20, rate: 20, per: '1s' }) }),
  ],
};

/** Holds the response until the client leaves, or answers with a status after a time. */
async function answer({ headers }, response) {
  if (headers['x-hold'] !== undefined) return void response.writeHead(200).write('open\n');
  await sleep(Number(headers['x-after-ms'] ?? 0));
  response.writeHead(Number(headers['x-status'] ?? 200)).end(`${Date.now()}`);
}

const make = {
  async fastify() {
    const app = Fastify();
    await app.register(tollgate, gate);
    app.get('/', (request, reply) => {
      reply.hijack();
      for (const [name, value] of Object.entries(reply.getHeaders()))
        reply.raw.setHeader(name, value);
      return answer(request, reply.raw);
    });
    await app.ready();
    return app.server;
  },

  async express() {
    const app = express();
    app.use(rateLimit(gate));
    app.get('/', answer);
    return createServer(app);
  },
};

const server = await make[framework]();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.send(server.address().port);
await once(process, 'disconnect');
process.exit();
