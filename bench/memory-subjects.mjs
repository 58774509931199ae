// Everything that decides in memory, made alike: a call per decision, and how to read its answer.
import { createRequire } from 'node:module';
import {
  createLimiter,
  fixedWindow,
  memoryStore,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import { rateLimit as tollgate } from '@tollgate/express';
import { MemoryStore, rateLimit } from 'express-rate-limit';
import Fastify from 'fastify';
import fastifyRateLimit from '@fastify/rate-limit';
import { RateLimiterMemory } from 'rate-limiter-flexible';

const LocalStore = createRequire(import.meta.url)('@fastify/rate-limit/store/LocalStore.js');

/** Nobody forgets keys for want of room. */
const MAX_KEYS = 2_000_000;
const TENANTS = Array.from({ length: 10_000 }, (_, index) => `tenant-${index}`);

/**
 * @typedef {object} Numbers
 * @property {number} limit
 * @property {number} windowMs
 * @property {number} [rate] units that a bucket gains per window; default the limit
 */

/** What a decision costs at the very least: a look-up, a reading of the clock and a count. */
function floor({ limit, windowMs }) {
  const counters = new Map();
  return {
    check(key) {
      const now = Date.now();
      let counter = counters.get(key);
      if (counter === undefined) {
        counter = { count: 0, reset: now + windowMs };
        counters.set(key, counter);
      } else if (counter.reset <= now) {
        counter.count = 0;
        counter.reset = now + windowMs;
      }
      counter.count++;
      return counter;
    },
    allowed: ({ count }) => count <= limit,
  };
}

function limiterOf(policyOf) {
  return (numbers) => {
    const store = memoryStore({ maxKeys: MAX_KEYS });
    const limiter = createLimiter({
      store,
      limits: [{ name: 'address', policy: policyOf(numbers) }],
    });
    return {
      check: (key) => limiter.consume({ address: key }),
      allowed: (decision) => decision.allowed,
    };
  };
}

const bucket = ({ limit, windowMs, rate = limit }) =>
  tokenBucket({ capacity: limit, rate, per: windowMs });
const fixed = ({ limit, windowMs }) => fixedWindow({ limit, window: windowMs });
const sliding = ({ limit, windowMs }) => slidingWindow({ limit, window: windowMs });

/** A limit for each address, one for each of 10,000 tenants and one for all, decided together. */
function layers(numbers) {
  const wide = { limit: 100_000_000, windowMs: 10_000 };
  const limiter = createLimiter({
    store: memoryStore({ maxKeys: MAX_KEYS }),
    limits: [
      { name: 'address', policy: bucket(numbers) },
      { name: 'tenant', policy: fixed(wide) },
      { name: 'service', policy: sliding(wide) },
    ],
  });
  return {
    check: (key, index) =>
      limiter.consume({ address: key, tenant: TENANTS[index % TENANTS.length], service: 'all' }),
    allowed: (decision) => decision.allowed,
  };
}

function expressStore({ limit, windowMs }) {
  const store = new MemoryStore();
  store.init({ windowMs });
  return {
    check: (key) => store.increment(key),
    allowed: ({ totalHits }) => totalHits <= limit,
  };
}

/** Calls middleware with requests and responses that do nothing, so that only its own work is measured. */
function called(middleware, awaited) {
  const app = { get: () => false };
  const socket = { destroyed: false };
  const response = {
    socket,
    statusCode: 200,
    headersSent: false,
    closed: false,
    destroyed: false,
    setHeader() {},
    status(code) {
      response.statusCode = code;
      return response;
    },
    send() {},
    end() {},
  };
  const next = () => {
    response.statusCode = 200;
  };
  const call = (key) =>
    middleware(
      { method: 'GET', headers: {}, rawHeaders: [], ip: key, app, socket },
      response,
      next,
    );
  return {
    check: awaited
      ? async (key) => {
          await call(key);
          return response.statusCode;
        }
      : (key) => {
          call(key);
          return response.statusCode;
        },
    allowed: (status) => status === 200,
  };
}

function tollgateMiddleware(numbers) {
  const store = memoryStore({ maxKeys: MAX_KEYS });
  const logger = { warn() {}, error() {} };
  return called(tollgate({ store, policy: fixed(numbers), logger }), false);
}

const expressMiddleware = ({ limit, windowMs }) => called(rateLimit({ limit, windowMs }), true);

function fastifyStore({ limit, windowMs }) {
  const store = new LocalStore(false, false, MAX_KEYS);
  let answer;
  const keep = (_, current) => {
    answer = current;
  };
  return {
    check(key) {
      store.incr(key, keep, windowMs, limit);
      return answer;
    },
    allowed: ({ current }) => current <= limit,
  };
}

/** What the plugin offers to handlers that decide for themselves. */
async function fastifyCheck({ limit, windowMs }) {
  const app = Fastify();
  await app.register(fastifyRateLimit, {
    global: false,
    max: limit,
    timeWindow: windowMs,
    cache: MAX_KEYS,
  });
  await app.ready();
  const check = app.createRateLimit();
  const request = { ip: '', routeOptions: { config: {} } };
  return {
    check(key) {
      request.ip = key;
      return check(request);
    },
    allowed: ({ isExceeded }) => !isExceeded,
  };
}

function flexible({ limit, windowMs }) {
  const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1_000 });
  return {
    check: (key) => limiter.consume(key),
    allowed: ({ consumedPoints }) => consumedPoints <= limit,
  };
}

export const FLOOR = 'floor: a Map of { count, reset }';

/** `peer`: what ours are compared with. `awaited`: whether the call is awaited. `expires`: whether keys are forgotten. */
export const SUBJECTS = {
  [FLOOR]: { open: floor, peer: true },
  'Tollgate, token bucket': { open: limiterOf(bucket), expires: true },
  'Tollgate, token bucket, awaited': { open: limiterOf(bucket), awaited: true },
  'Tollgate, fixed window': { open: limiterOf(fixed), expires: true },
  'Tollgate, sliding window': { open: limiterOf(sliding) },
  'Tollgate, 3 layers': { open: layers },
  'Tollgate, Express middleware': { open: tollgateMiddleware },
  '@fastify/rate-limit, store': { open: fastifyStore, peer: true, expires: true },
  '@fastify/rate-limit, check': { open: fastifyCheck, peer: true, awaited: true },
  'express-rate-limit, store': { open: expressStore, peer: true, awaited: true, expires: true },
  'express-rate-limit, middleware': { open: expressMiddleware, peer: true, awaited: true },
  'rate-limiter-flexible': { open: flexible, peer: true, awaited: true, expires: true },
};

/** An address as it comes from a socket: a string in one piece, not one glued together when it is first read. */
export function address(network, index) {
  const text = `${network}.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;
  return Buffer.from(text, 'latin1').toString('latin1');
}
