import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLimiter, tokenBucket } from '@tollgate/core';
import { type Dashboard, dashboard } from '@tollgate/dashboard';

const limiter = createLimiter({
  limits: [{ name: 'api', policy: tokenBucket({ capacity: 2, rate: 1, per: '1h' }) }],
});
const page: Dashboard = dashboard(
  { limiter },
  { authorize: ({ headers }) => headers['x-operator'] === 'ada' },
);
const server = createServer(page).listen(0, '127.0.0.1', () => void ask());

async function ask(): Promise<void> {
  const { port } = server.address() as AddressInfo;
  const statuses: number[] = [];
  for (const operator of ['ada', 'eve']) {
    const { status } = await fetch(`http://127.0.0.1:${port}/`, {
      headers: { 'x-operator': operator },
    });
    statuses.push(status);
  }
  server.closeAllConnections();
  server.close();
  page.close();
  console.log(JSON.stringify(statuses));
}
