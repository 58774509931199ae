import {
  custom,
  everyone,
  type GateLimitOptions,
  type GateOptions,
  slidingWindow,
  tokenBucket,
} from '@tollgate/core';
import { dashboard, type DashboardOptions } from '@tollgate/dashboard';
import { tollgate } from '@tollgate/fastify';
import { fastify, type FastifyInstance, type FastifyRequest } from 'fastify';
import { onTestFinished } from 'vitest';
import { silent } from '../http/log.ts';

export interface Served {
  readonly app: FastifyInstance;
  readonly url: string;
  /** Without a slash at its end. */
  readonly page: string;
  /** Sends a request with a key, and returns the status of its answer. */
  readonly ask: (key: string) => Promise<number>;
  readonly askTimes: (times: number, key: string) => Promise<void>;
}

const byHeader = custom<FastifyRequest>(({ headers }) =>
  decodeURIComponent(String(headers['x-key'] ?? 'nobody')),
);

/** Two limits, of which the first refuses from the sixth request of a key on, and one in shadow mode. */
const LIMITS: readonly GateLimitOptions<FastifyRequest>[] = [
  {
    name: 'caller',
    by: byHeader,
    policy: slidingWindow({ limit: 5, window: '1h' }),
    ban: { after: 100, within: '1m', for: '10m' },
  },
  { name: 'all', by: everyone(), policy: tokenBucket({ capacity: 10_000, rate: 1, per: '1s' }) },
  {
    name: 'stricter',
    by: byHeader,
    mode: 'shadow',
    policy: slidingWindow({ limit: 2, window: '1h' }),
  },
];

/** Serves a limited route and the page, until the test is over. */
export async function serve(
  gate: Partial<GateOptions<FastifyRequest>> = {},
  options: Partial<DashboardOptions<FastifyRequest>> = {},
  port = 0,
): Promise<Served> {
  const app = fastify({ forceCloseConnections: true });
  await app.register(tollgate, { logger: silent, limits: LIMITS, ...gate });
  app.get('/limited', () => 'served');
  const page = dashboard(app.tollgate, { authorize: () => 'ada', logger: silent, ...options });
  await app.register(page.fastify, { prefix: '/tollgate' });
  onTestFinished(() => app.close());
  const url = await app.listen({ host: '127.0.0.1', port });
  const ask = async (key: string): Promise<number> => {
    const answer = await fetch(`${url}/limited`, {
      headers: { 'x-key': encodeURIComponent(key) },
    });
    await answer.arrayBuffer();
    return answer.status;
  };
  return {
    app,
    url,
    page: `${url}/tollgate`,
    ask,
    askTimes: async (times, key) => {
      for (let i = 0; i < times; i++) await ask(key);
    },
  };
}
