// One program, as a cluster or as a single process: `node processes-member.mjs <workers> <store>`. Every process prints
// a line of JSON for each warning that it is given, and one when it is done.
import cluster from 'node:cluster';
import { createLimiter, fixedWindow, parseLimits } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { rateLimit } from '@tollgate/express';
import { Redis } from 'ioredis';

const [, , workers = '0', store = 'memory'] = process.argv;
const say = (told) => console.log(JSON.stringify({ worker: cluster.worker?.id ?? 0, ...told }));
const logger = { warn: ({ code }, message) => say({ code, message }), error() {} };

const redis = () => ({ store: redisStore(new Redis({ port: 1, lazyConnect: true })) });
const where = () => (store === 'redis' ? redis() : {});
const policy = fixedWindow({ limit: 10, window: '1m' });

// Reading limits is not limiting by them.
parseLimits(JSON.stringify({ limits: [{ name: 'file', policy }] }));
const gate = rateLimit({ ...where(), policy, logger });
const limiter = createLimiter({ ...where(), limits: [{ name: 'api', policy }], logger });
limiter.close();
await gate.close();
say({ code: 'done' });

if (cluster.isPrimary) for (let i = 0; i < Number(workers); i++) cluster.fork();
else cluster.worker.disconnect();
