// Everything that `npm run bench` measures, in this order. A suite is an object:
// - title, and rounds within minutes: fewer rounds are made where they would take longer, unless asked for by number
// - settings, and those of --quick: the numbers that it measures with, which its report tells
// - measure({ settings, chosen, tell, rounds, minutes, quick, keepAll }): the Samples, subject by subject
// - report(samples, settings): Markdown; panels(samples, settings): what plot.mjs draws
import { express, fastify } from './http.mjs';
import { leases } from './leases.mjs';
import { decisions, expiry } from './memory.mjs';
import { redis } from './redis.mjs';
import { replay } from './replay.mjs';

export const SUITES = { decisions, expiry, fastify, express, redis, leases, replay };
