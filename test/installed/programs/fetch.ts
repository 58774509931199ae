import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLimiter, tokenBucket } from '@tollgate/core';
import { createFetch, type Outcome, outcomeOf } from '@tollgate/fetch';

let asked = 0;
const server = createServer((_, response) => {
  if (++asked === 1) response.writeHead(503, { 'retry-after': '0' });
  response.end('served');
}).listen(0, '127.0.0.1', () => void ask());

async function ask(): Promise<void> {
  const { port } = server.address() as AddressInfo;
  const limiter = createLimiter({
    limits: [{ name: 'provider', policy: tokenBucket({ capacity: 5, rate: 5, per: '1s' }) }],
  });
  const send = createFetch({ limiter, keys: { provider: 'ours' } });
  const response = await send(`http://127.0.0.1:${port}/`);
  const outcome: Outcome | undefined = outcomeOf(response);
  server.closeAllConnections();
  server.close();
  console.log(JSON.stringify([response.status, outcome?.attempts]));
}
