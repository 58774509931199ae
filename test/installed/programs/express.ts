import type { AddressInfo } from 'node:net';
import { tokenBucket } from '@tollgate/core';
import { clientIp, type ExpressGate, rateLimit } from '@tollgate/express';
import express from 'express';

const app = express();
const gate: ExpressGate = rateLimit({
  limits: [
    { name: 'address', by: clientIp(), policy: tokenBucket({ capacity: 6, rate: 1, per: '1h' }) },
    {
      name: 'host',
      by: (request) => request.hostname,
      policy: tokenBucket({ capacity: 9, rate: 1, per: '1h' }),
    },
  ],
});
app.use(gate);
app.get('/', gate.with({ cost: 3 }), (request, response) => {
  response.json(request.rateLimit?.remaining);
});
const server = app.listen(0, '127.0.0.1', () => void ask());

async function ask(): Promise<void> {
  const { port } = server.address() as AddressInfo;
  const said: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    const response = await fetch(`http://127.0.0.1:${port}/`);
    said.push(response.ok ? await response.json() : response.status);
  }
  server.closeAllConnections();
  server.close();
  console.log(JSON.stringify(said));
}
