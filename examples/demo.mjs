// Starts both web examples, sends a burst of requests to each, shows who was admitted, and keeps serving.
// FASTIFY_PORT and EXPRESS_PORT choose the ports; without them free ones are taken. With REDIS_URL the budgets are in
// that Redis, shared with every other process that has it, and outlive this one.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { buildLogin } from './express-login.mjs';
import { buildApi } from './fastify-api.mjs';
import { closeOnSignal, serve } from './serving.mjs';
import { storeFor } from './store.mjs';

/** Told of refusals; silent during the burst, whose outcome the table tells. */
let isBurst = true;
const logger = {
  warn: (details, message) => isBurst || console.log(`tollgate: ${message}`, details),
  error: (details, message) => console.error(`tollgate: ${message}`, details),
};

/**
 * Sends requests all at once and counts the outcomes.
 *
 * @param {string} label
 * @param {number} times
 * @param {string} url
 * @param {RequestInit} [init]
 */
async function burst(label, times, url, init) {
  const answers = [];
  const send = async () => {
    const { status, headers, body } = await fetch(url, init);
    await body?.cancel();
    answers.push({ status, headers });
  };
  await Promise.all(Array.from({ length: times }, send));
  const refusals = answers.filter(({ status }) => status === 429);
  const last = refusals.at(-1) ?? answers.at(-1);
  return { label, times, refused: refusals.length, status: last.status, headers: last.headers };
}

/** Writes rows under a heading, each column as wide as its widest cell; numbers stand at its right. */
function table(heading, rows, indent) {
  const isNumber = heading.map((_, column) => typeof rows[0][column] === 'number');
  const widths = heading.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => String(row[column]).length)),
  );
  const line = (row) =>
    row
      .map((cell, column) =>
        isNumber[column]
          ? String(cell).padStart(widths[column])
          : String(cell).padEnd(widths[column]),
      )
      .join('  ');
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [line(heading), rule, ...rows.map(line)]
    .map((text) => `${indent}${text.trimEnd()}`)
    .join('\n');
}

const { store, where } = storeFor('fastify-api');
const api = await buildApi({ store, logger });
const loginApp = buildLogin({ store: storeFor('express-login').store, logger });
const login = createServer(loginApp);
const fastify = await serve('FASTIFY_PORT', async (port, host) => {
  await api.listen({ port, host });
  return api.server;
});
const express = await serve('EXPRESS_PORT', async (port, host) => {
  await once(login.listen(port, host), 'listening');
  return login;
});
closeOnSignal(async () => {
  await api.close();
  login.close();
  await loginApp.locals.gate.close();
});

console.log(`
Two servers with their budgets ${where}

  Fastify  ${fastify}  limits by address, by API key and by tenant
  Express  ${express}  limits by address and by failed login

A burst of requests to each
`);

const wrongPassword = {
  method: 'POST',
  body: new URLSearchParams({ account: 'ada', password: 'guess' }),
};
const as = (key) => ({ headers: { 'X-API-Key': key } });
const outcomes = [
  await burst('Fastify  GET /quotes', 40, `${fastify}/quotes`, as('key-birch')),
  await burst('Fastify  GET /search, cost 5', 10, `${fastify}/search`, as('key-acme-web')),
  await burst('Express  POST /login, wrong password', 10, `${express}/login`, wrongPassword),
  await burst('Express  GET /articles', 80, `${express}/articles`),
];
isBurst = false;

console.log(
  table(
    ['Request', 'Sent', 'Admitted', 'Refused', 'Retry-After, s'],
    outcomes.map(({ label, times, refused, headers }) => [
      label,
      times,
      times - refused,
      refused,
      Number(headers.get('retry-after')),
    ]),
    '  ',
  ),
);
console.log(`
The last answer to each, limit by limit: a quota (q) per window of seconds (w);
what remains of it (r), and the seconds until there is more (t)
`);
for (const { label, status, headers } of outcomes) {
  const policies = headers.get('ratelimit-policy').split(', ');
  const states = headers.get('ratelimit').split(', ');
  console.log(`  ${label}: ${status}`);
  console.log(
    table(
      ['RateLimit-Policy', 'RateLimit'],
      policies.map((policy, index) => [policy, states[index]]),
      '    ',
    ),
  );
  console.log();
}
console.log(`Try it: the first is refused from the eleventh on, then admitted every 6 seconds

  curl -i ${fastify}/quotes
  curl -i -H 'X-API-Key: key-birch' ${fastify}/search
  curl -i ${fastify}/health
  curl -i -d 'account=ada&password=lovelace' ${express}/login
  curl -i ${express}/articles

Who is limited, live, to be looked at, reset or banned; only by browsers on this machine

  ${fastify}/tollgate
  ${express}/tollgate

Ctrl-C stops both.`);
