// One process of a fleet: it hammers limits in Redis when told to, and reports every answer in the order of the replies.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';

const SLOW_MACHINE_MS = 20_000;
const client = new Redis(Number(process.argv[2]), '127.0.0.1');
let limiter;

const call = {
  /** Makes the limiter and connects, so that all members start at once later. */
  async prepare({ prefix, limits, keys }) {
    const store = redisStore(client, { prefix, deadlineMs: SLOW_MACHINE_MS });
    limiter = createLimiter({ store, limits });
    await limiter.peek(keys);
  },

  /** `rounds` times as many calls at once as there are costs. */
  async hammer({ rounds, costs, keys }) {
    const answers = [];
    for (let round = 0; round < rounds; round++) {
      await Promise.all(
        costs.map(async (cost) => {
          const { allowed, atMs, delayMs, verdicts } = await limiter.consume(keys, { cost });
          answers.push({ allowed, atMs, delayMs, verdicts });
        }),
      );
    }
    return answers;
  },

  /** As many waits at once, each of which holds what it got for a time. Told in the order in which they were served. */
  async wait({ count, holdMs, keys }) {
    const served = [];
    await Promise.all(
      Array.from({ length: count }, async (_, place) => {
        const decision = await limiter.wait(keys);
        const one = { place, atMs: decision.atMs, servedMs: Date.now() };
        served.push(one);
        await sleep(holdMs);
        one.doneMs = Date.now();
        await decision.release();
      }),
    );
    return served;
  },

  async close() {
    await limiter.close();
  },
};

process.on('message', async ({ name, options }) => {
  try {
    process.send({ value: await call[name](options) });
  } catch (error) {
    process.send({ error: String(error?.stack ?? error) });
  }
});
await once(process, 'disconnect');
client.disconnect();
