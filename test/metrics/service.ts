import type { AddressInfo } from 'node:net';
import { everyone, fixedWindow, onEvent, type StoreCallEvent } from '@tollgate/core';
import { redisStore } from '@tollgate/core/redis';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance } from 'fastify';
import { Redis } from 'ioredis';
import { expect, onTestFinished } from 'vitest';
import { ask, type Reply } from '../http/clients.ts';
import { silent } from '../http/log.ts';
import { RedisServer } from '../redis/server.ts';

/** What metrics should say, by their names without a prefix and a unit, and their labels. */
export type Expected = Readonly<Record<string, number>>;

/** A service with limits in Redis, and what it is asked. Users are told apart by a header. */
export class Service {
  readonly url: string;
  /** All calls to Redis so far. */
  readonly calls: StoreCallEvent[] = [];
  private readonly app: FastifyInstance;
  private readonly redis: RedisServer;

  private constructor(url: string, app: FastifyInstance, redis: RedisServer) {
    this.url = url;
    this.app = app;
    this.redis = redis;
    onTestFinished(onEvent('tollgate:store-call', (event) => void this.calls.push(event)));
  }

  /** @param prepare adds routes that are not limited. */
  static async open(prepare: (app: FastifyInstance) => void = () => undefined): Promise<Service> {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.stop());
    const app = fastify({ forceCloseConnections: true });
    onTestFinished(() => app.close());
    const client = new Redis(redis.port, '127.0.0.1', { lazyConnect: true });
    await app.register(tollgate, {
      // Nothing is late, and the breaker is probed once the test is over.
      store: redisStore(client, {
        prefix: 'shop:',
        deadlineMs: 10_000,
        breaker: { failures: 3, probeMs: 600_000 },
      }),
      logger: silent,
      limits: [
        {
          name: 'user',
          by: ({ headers }) => String(headers['x-user']),
          policy: fixedWindow({ limit: 3, window: '1d' }),
        },
        {
          name: 'trial',
          by: everyone(),
          policy: fixedWindow({ limit: 2, window: '1d' }),
          mode: 'shadow',
          whenStoreFails: 'allow',
        },
      ],
    });
    app.get('/', () => 'served');
    prepare(app);
    await app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = app.server.address() as AddressInfo;
    return new Service(`http://127.0.0.1:${port}`, app, redis);
  }

  get limiter(): FastifyInstance['tollgate']['limiter'] {
    return this.app.tollgate.limiter;
  }

  /** Asks in turn, as a user, and says which statuses came back. */
  async ask(user: string, times: number): Promise<number[]> {
    const statuses: number[] = [];
    for (let i = 0; i < times; i++) {
      const reply: Reply = await ask(this.url, { headers: { 'x-user': user } });
      statuses.push(reply.status);
    }
    return statuses;
  }

  /** Sends five requests, of which three are admitted, and two of those not by the trial. */
  async useInHealth(): Promise<Expected> {
    expect(await this.ask('ada', 5)).toEqual([200, 200, 200, 429, 429]);
    return {
      'decisions outcome=admitted source=store': 3,
      'decisions outcome=limited source=store': 2,
      'verdicts limit=user mode=enforce outcome=admitted': 3,
      'verdicts limit=user mode=enforce outcome=limited': 2,
      'verdicts limit=trial mode=shadow outcome=admitted': 2,
      'verdicts limit=trial mode=shadow outcome=limited': 3,
      'store_state state=up store=shop:': 1,
      'store_state state=down store=shop:': 0,
      'store_state state=probing store=shop:': 0,
    };
  }

  /** Stops Redis and sends four requests, which are decided without. Says what is to be added, and what has changed. */
  async useInOutage(before: Expected): Promise<Expected> {
    await this.redis.stop('SIGKILL');
    expect(await this.ask('bob', 4)).toEqual([200, 200, 200, 429]);
    expect(this.limiter.health().store).toBe('down');
    return {
      ...before,
      'decisions outcome=admitted source=fallback': 3,
      'decisions outcome=limited source=fallback': 1,
      'decisions_degraded outcome=admitted': 3,
      'decisions_degraded outcome=limited': 1,
      'verdicts limit=user mode=enforce outcome=admitted': 6,
      'verdicts limit=user mode=enforce outcome=limited': 3,
      // One for each call that failed, the last of which opened the breaker. The fourth request asked nobody.
      'store_errors store=shop:': 3,
      'store_state state=up store=shop:': 0,
      'store_state state=down store=shop:': 1,
    };
  }
}
