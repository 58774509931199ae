// The servers that are compared, by framework. Those under `refused` answer every request but the first with 429.
import fastifyRateLimit from '@fastify/rate-limit';
import { fixedWindow } from '@tollgate/core';
import { rateLimit as tollgateForExpress } from '@tollgate/express';
import { tollgate as tollgateForFastify } from '@tollgate/fastify';
import express from 'express';
import { rateLimit as expressRateLimit } from 'express-rate-limit';
import Fastify from 'fastify';

const MANY = 100_000_000;
const MINUTE = 60_000;
const DAY = 86_400_000;
const roomy = { policy: fixedWindow({ limit: MANY, window: MINUTE }) };
const spent = { policy: fixedWindow({ limit: 1, window: DAY }) };

/** What Tollgate sends by default, with numbers as long. */
const HEADERS = [
  ['RateLimit-Limit', `${MANY}`],
  ['RateLimit-Remaining', `${MANY - 1}`],
  ['RateLimit-Reset', '42'],
  ['RateLimit', `"default";r=${MANY - 1};t=42`],
  ['RateLimit-Policy', `"default";q=${MANY};w=60`],
];
/** About as long as a problem of Tollgate's. */
const REFUSAL = JSON.stringify({
  title: 'Too Many Requests',
  status: 429,
  detail: '-'.repeat(138),
});

async function fastify(prepare) {
  const app = Fastify();
  await prepare?.(app);
  app.get('/', (request, reply) => {
    reply.send({ hello: 'world' });
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  return app.server.address().port;
}

const withHook = (hook) => () => fastify((app) => void app.addHook('onRequest', hook));
const withTollgate = (options) => () => fastify((app) => app.register(tollgateForFastify, options));
const withPeer = (max, timeWindow) => () =>
  fastify((app) => app.register(fastifyRateLimit, { max, timeWindow }));

function expressApp(...middleware) {
  const app = express();
  for (const each of middleware) app.use(each);
  app.get('/', (request, response) => {
    response.json({ hello: 'world' });
  });
  return new Promise((resolve, reject) => {
    const server = app.listen(0, '127.0.0.1', (error) => {
      if (error) reject(error);
      else resolve(server.address().port);
    });
  });
}

export const BARE = 'bare';
export const BARE_429 = 'bare 429';
export const PEERS = { fastify: '@fastify/rate-limit', express: 'express-rate-limit' };

export const SUBJECTS = {
  fastify: {
    served: {
      [BARE]: () => fastify(),
      'floor: 5 constant headers': withHook((request, reply, done) => {
        for (const [name, value] of HEADERS) reply.header(name, value);
        done();
      }),
      Tollgate: withTollgate(roomy),
      'Tollgate, headers: false': withTollgate({ ...roomy, headers: false }),
      'Tollgate, headers: ["x-ratelimit"]': withTollgate({ ...roomy, headers: ['x-ratelimit'] }),
      [PEERS.fastify]: withPeer(MANY, MINUTE),
    },
    refused: {
      [BARE_429]: withHook((request, reply) => {
        reply.code(429).header('content-type', 'application/json').send(REFUSAL);
      }),
      'Tollgate, refused': withTollgate(spent),
      [`${PEERS.fastify}, refused`]: withPeer(1, DAY),
    },
  },
  express: {
    served: {
      [BARE]: () => expressApp(),
      'floor: 5 constant headers': () =>
        expressApp((request, response, next) => {
          for (const [name, value] of HEADERS) response.setHeader(name, value);
          next();
        }),
      Tollgate: () => expressApp(tollgateForExpress(roomy)),
      'Tollgate, headers: false': () =>
        expressApp(tollgateForExpress({ ...roomy, headers: false })),
      'Tollgate, headers: ["x-ratelimit"]': () =>
        expressApp(tollgateForExpress({ ...roomy, headers: ['x-ratelimit'] })),
      [PEERS.express]: () => expressApp(expressRateLimit({ limit: MANY, windowMs: MINUTE })),
    },
    refused: {
      [BARE_429]: () =>
        expressApp((request, response) => {
          response.statusCode = 429;
          response.setHeader('Content-Type', 'application/json');
          response.setHeader('Content-Length', Buffer.byteLength(REFUSAL));
          response.end(REFUSAL);
        }),
      'Tollgate, refused': () => expressApp(tollgateForExpress(spent)),
      [`${PEERS.express}, refused`]: () =>
        expressApp(expressRateLimit({ limit: 1, windowMs: DAY })),
    },
  },
};
