// A sender of pushes and text messages, without a web framework: one decision charges the user's, the provider's and
// the global limit, or none of them. Start it with `node examples/notifications.mjs`; with REDIS_URL set, all its
// processes share their budgets.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import {
  createLimiter,
  memoryStore,
  slidingLog,
  tokenBucket,
  TollgateWaitError,
} from '@tollgate/core';
import { closeOnSignal, isMain, serve } from './serving.mjs';
import { storeFor } from './store.mjs';

/** What each provider lets us send. */
const PROVIDERS = {
  push: tokenBucket({ capacity: 50, rate: 50, per: '1s' }),
  sms: tokenBucket({ capacity: 10, rate: 5, per: '1s' }),
};

/** A text message is billed in parts; how many is known for sure once the provider has encoded it. */
const SHORTEST_PART = 70;

/**
 * @typedef {{ to: string, provider: 'push' | 'sms', message: string }} Notification
 * @typedef {{ sent: true } | { sent: false, refusedBy: string[], retryAfterMs: number }} Result
 */

/**
 * Makes a sender. `deliver` calls the provider and answers how many parts it took.
 *
 * @param {object} options
 * @param {(notification: Notification) => Promise<{ parts: number }>} options.deliver
 * @param {import('@tollgate/core').Store} [options.store]
 * @param {number} [options.maxWaitMs] how long a notification may wait for its turn
 */
export function createSender({ deliver, store = memoryStore(), maxWaitMs = 2_000 }) {
  const limiter = createLimiter({
    store,
    limits: [
      { name: 'user', policy: slidingLog({ limit: 5, window: '1h' }) },
      { name: 'provider' }, // Every call brings the provider's own policy.
      { name: 'global', policy: tokenBucket({ capacity: 60, rate: 60, per: '1s' }) },
    ],
  });

  /**
   * Sends once all limits admit. What cannot be in time is refused at once, and charged to nobody.
   *
   * @param {Notification} notification
   * @returns {Promise<Result>}
   */
  async function send(notification) {
    const { to, provider, message } = notification;
    let decision;
    try {
      decision = await limiter.wait(
        { user: to, provider, global: 'all' },
        {
          cost: { provider: Math.max(1, Math.ceil(message.length / SHORTEST_PART)) },
          policies: { provider: PROVIDERS[provider] },
          maxWaitMs,
        },
      );
    } catch (error) {
      if (!(error instanceof TollgateWaitError)) throw error;
      return refusal(error);
    }
    try {
      const { parts } = await deliver(notification);
      await decision.settle({ provider: parts });
    } catch (error) {
      // The user got nothing, so it is not held against them. The provider was called all the same.
      await decision.settle({ user: 0 });
      throw error;
    }
    return { sent: true };
  }

  return {
    send,
    /** For a provider that reports later that a message never arrived. */
    bounced: (to) => limiter.refund({ user: to }),
    close: () => limiter.close(),
  };
}

function refusal({ decision }) {
  const refusing = decision?.verdicts.filter(({ allowed }) => !allowed) ?? [];
  return {
    sent: false,
    refusedBy: refusing.map(({ name }) => name),
    // Without a decision it was the queue that took too long.
    retryAfterMs: decision?.retryAfterMs ?? 1_000,
  };
}

/**
 * `POST /send?to=…&provider=sms` with the message as the body.
 *
 * @param {ReturnType<typeof createSender>} sender
 */
export function buildService(sender) {
  return createServer(async (request, response) => {
    const answer = (status, body, headers = {}) => {
      response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
      response.end(`${JSON.stringify(body)}\n`);
    };
    try {
      const { pathname, searchParams } = new URL(request.url, 'http://localhost');
      const to = searchParams.get('to');
      const provider = searchParams.get('provider');
      if (request.method !== 'POST' || pathname !== '/send') return answer(404, { sent: false });
      if (!to || !Object.hasOwn(PROVIDERS, provider)) return answer(400, { sent: false });
      const result = await sender.send({ to, provider, message: await text(request) });
      if (result.sent) return answer(202, result);
      const seconds = Math.max(1, Math.ceil(result.retryAfterMs / 1_000));
      return answer(429, result, Number.isFinite(seconds) ? { 'Retry-After': seconds } : {});
    } catch (error) {
      return answer(502, { sent: false, error: error.message });
    }
  });
}

if (isMain(import.meta.url)) {
  const { store, where } = storeFor('notifications');
  const sender = createSender({
    store,
    deliver: async ({ to, provider, message }) => {
      if (to === 'nobody') throw new Error('There is no such subscriber.');
      console.log(`${provider} to ${to}: ${message}`);
      return { parts: Math.max(1, Math.ceil(message.length / 160)) };
    },
  });
  const service = buildService(sender);
  const url = await serve('PORT', async (port, host) => {
    await once(service.listen(port, host), 'listening');
    return service;
  });
  closeOnSignal(async () => {
    await sender.close();
    service.close();
  });
  console.log(`A sender of notifications, at ${url}
Its budgets are ${where}

Five an hour for each user; the sixth is refused
  curl -i -d 'Your code is 123456' '${url}/send?to=ada&provider=sms'

A send that fails is not held against the user, so this one never ends in a refusal
  curl -i -d 'Hello' '${url}/send?to=nobody&provider=push'

Ctrl-C stops it.`);
}
