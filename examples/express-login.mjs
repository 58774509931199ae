// Logins that count failures only, strictly, beside a loose limit on everything.
// Start it with `node examples/express-login.mjs`; with REDIS_URL set, all its processes share their budgets.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { memoryStore, slidingLog, tokenBucket } from '@tollgate/core';
import { dashboard } from '@tollgate/dashboard';
import { all, clientIp, custom, rateLimit, secret } from '@tollgate/express';
import express from 'express';
import { closeOnSignal, isMain, serve } from './serving.mjs';
import { storeFor } from './store.mjs';
import { isFromThisMachine } from './this-machine.mjs';

/** Stands in for a look-up and a slow hash, such as scrypt. */
async function checkDemoPassword(account, password) {
  return account === 'ada' && password === 'lovelace';
}

/** `Ada` and `ada ` are one account, to the limit as to the look-up. */
function accountOf({ body }) {
  return String(body?.account ?? '')
    .trim()
    .toLowerCase();
}

/**
 * Builds the app. Its gate is `app.locals.gate`.
 *
 * @param {object} [options]
 * @param {import('@tollgate/core').Store} [options.store]
 * @param {import('@tollgate/core').Logger} [options.logger]
 * @param {(account: string, password: string) => Promise<boolean>} [options.checkPassword]
 */
export function buildLogin({
  store = memoryStore(),
  logger,
  checkPassword = checkDemoPassword,
} = {}) {
  const app = express();
  const gate = rateLimit({
    store,
    logger,
    limits: [
      {
        name: 'address',
        by: clientIp(),
        policy: tokenBucket({ capacity: 60, rate: 5, per: '1s' }),
      },
    ],
  });

  // Five wrong passwords for an account from one address. Somebody elsewhere cannot lock the owner out.
  const wrongPassword = {
    name: 'wrong-password',
    by: all(secret(custom((request) => accountOf(request) || 'none')), clientIp()),
    policy: slidingLog({ limit: 5, window: '15m' }),
    countOnly: 'failures',
  };
  // An address that tries many accounts gets a fresh budget with each, hence one over all of them.
  const manyAccounts = {
    name: 'many-accounts',
    by: clientIp(),
    policy: slidingLog({ limit: 30, window: '1h' }),
    countOnly: 'failures',
  };

  app.locals.gate = gate; // to be closed with the server
  // In front of the gate, and so outside the limits that it shows.
  app.use('/tollgate', dashboard(gate, { authorize: isFromThisMachine, logger }));
  app.use(gate);
  app.get('/articles', (_request, response) => {
    response.json({ articles: ['On the Analytical Engine'] });
  });
  app.post(
    '/login',
    express.urlencoded(),
    gate.with({ limits: [wrongPassword, manyAccounts] }),
    async (request, response) => {
      const right = await checkPassword(accountOf(request), String(request.body?.password ?? ''));
      if (right) response.json({ welcome: accountOf(request) });
      else response.status(401).json({ error: 'Wrong account or password.' });
    },
  );
  return app;
}

if (isMain(import.meta.url)) {
  const { store, where } = storeFor('express-login');
  const app = buildLogin({ store });
  const server = createServer(app);
  const url = await serve('PORT', async (port, host) => {
    await once(server.listen(port, host), 'listening');
    return server;
  });
  closeOnSignal(async () => {
    server.close();
    await app.locals.gate.close();
  });
  console.log(`Logins that count failures only, at ${url}
Its budgets are ${where}

Five wrong passwords are answered, the sixth is refused
  curl -i -d 'account=ada&password=guess' ${url}/login

The right password costs nothing, and is refused with the others once five were wrong
  curl -i -d 'account=ada&password=lovelace' ${url}/login

Reads: 60 at once, then 5 a second
  curl -i ${url}/articles

Who is limited, to be looked at, reset or banned; only by browsers on this machine
  ${url}/tollgate

Ctrl-C stops it.`);
}
