// A server that can do so much and no more, in a process of its own: every request keeps it busy for WORK_MS.
import { clientIp, loadShedder, tollgate, tokenBucket } from '@tollgate/fastify';
import Fastify from 'fastify';

const workMs = Number(process.env.WORK_MS);
const shedder = process.env.SHEDS === 'yes' ? loadShedder() : undefined;
const app = Fastify({ forceCloseConnections: true });
await app.register(tollgate, {
  limits: [
    {
      name: 'address',
      by: clientIp(),
      policy: tokenBucket({ capacity: 1e6, rate: 1e6, per: '1s' }),
    },
  ],
  priority: ({ headers }) => headers['x-priority'],
  ...(shedder && { shedder }),
});
app.get('/open', { config: { rateLimit: false } }, () => 'open');
app.get('/', () => {
  const until = performance.now() + workMs;
  while (performance.now() < until);
  return 'done';
});
await app.listen({ host: '127.0.0.1', port: 0 });
process.send(app.server.address().port);
