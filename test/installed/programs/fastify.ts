import { tokenBucket } from '@tollgate/core';
import { apiKey, type FastifyOptions, tollgate } from '@tollgate/fastify';
import { fastify } from 'fastify';

const app = fastify();
const options: FastifyOptions = {
  limits: [
    { name: 'key', by: apiKey(), policy: tokenBucket({ capacity: 2, rate: 1, per: '1h' }) },
    {
      name: 'host',
      by: (request) => request.hostname,
      policy: { algorithm: 'fixed-window', limit: 9, window: '1d' },
    },
  ],
};

async function ask(): Promise<(number | undefined)[]> {
  await app.register(tollgate, options);
  app.get('/', { config: { rateLimit: { cost: 1 } } }, (request) => request.rateLimit?.remaining);
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await app.inject('/')).statusCode);
  const { remaining } = await app.tollgate.limiter.peek({ host: 'localhost' });
  await app.close();
  return [...statuses, remaining];
}

void ask().then((said) => console.log(JSON.stringify(said)));
