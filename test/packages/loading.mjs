// Loads packages by `import` or `require`, uses them, and tells of each a line: what its loading did to the process,
// and what came of its use.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { format } from 'node:util';

const require = createRequire(import.meta.url);
const [form, folder, ...entries] = process.argv.slice(2);

const load = async (name) => (form === 'import' ? import(name) : require(name));

/** What loading a package must leave as it is. */
function surroundings() {
  return {
    // But for requests that are under way, such as to close a file that was read.
    resources: process.getActiveResourcesInfo().filter((name) => !name.includes('Req')),
    listeners: process.eventNames().map((name) => format(name, process.listenerCount(name))),
    // But for those in which Zod's copies share what they are told.
    globals: Reflect.ownKeys(globalThis)
      .map(String)
      .filter((name) => !name.startsWith('__zod_')),
    environment: Object.keys(process.env),
  };
}

/** Some requests of a server, told by their statuses. */
async function ask(server, paths) {
  await once(server, 'listening');
  const statuses = [];
  for (const path of paths) {
    const { status } = await fetch(`http://127.0.0.1:${server.address().port}${path}`);
    statuses.push(status);
  }
  server.closeAllConnections();
  server.close();
  return statuses;
}

const policy = { algorithm: 'token-bucket', capacity: 2, rate: 1, per: '1h' };

const USES = {
  '@tollgate/core': ({ createLimiter, tokenBucket }) => {
    const own = tokenBucket({ capacity: 2, rate: 1, per: '1h' });
    const limiter = createLimiter({ limits: [{ name: 'api', policy: own }] });
    return [1, 2, 3].map(() => limiter.consume({ api: 'ada' }).allowed);
  },
  '@tollgate/core/redis': ({ redisStore }) => {
    try {
      return redisStore({});
    } catch (error) {
      return [error.name, error.message];
    }
  },
  '@tollgate/fastify': async ({ tollgate }) => {
    const app = (await import('fastify')).default();
    await app.register(tollgate, { policy });
    app.get('/', () => 'Hello');
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await app.inject('/')).statusCode);
    await app.close();
    return statuses;
  },
  '@tollgate/express': async ({ rateLimit }) => {
    const app = (await import('express')).default();
    app.use(rateLimit({ policy }));
    app.get('/', (_, response) => response.send('Hello'));
    return ask(app.listen(0, '127.0.0.1'), ['/', '/', '/']);
  },
  '@tollgate/fetch': async ({ createFetch, outcomeOf }) => {
    let asked = 0;
    const server = createServer((_, response) => {
      if (++asked === 1) response.writeHead(503, { 'retry-after': '0' });
      response.end('served');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const response = await createFetch({})(`http://127.0.0.1:${server.address().port}`);
    server.closeAllConnections();
    server.close();
    return [response.status, outcomeOf(response).attempts];
  },
  '@tollgate/dashboard': async ({ dashboard }) => {
    const { createLimiter } = await load('@tollgate/core');
    const limiter = createLimiter({ limits: [{ name: 'api', policy }] });
    const page = dashboard({ limiter }, { authorize: ({ url }) => url === '/?ada' });
    const statuses = await ask(createServer(page).listen(0, '127.0.0.1'), ['/?ada', '/']);
    page.close();
    return statuses;
  },
  '@tollgate/cli': async ({ replay }) => {
    const log = join(folder, `${form}.log`);
    const line = '192.0.2.7 - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 512\n';
    writeFileSync(log, line.repeat(5));
    const { admitted, refused } = await replay([log], { limits: [{ name: 'address', policy }] });
    return [admitted, refused];
  },
};

/** Loads one and says what that added to the process, and what its use returned. */
async function tell(entry) {
  const before = surroundings();
  const loaded = await load(entry);
  const after = surroundings();
  const changed = Object.entries(after).flatMap(([what, items]) =>
    items.filter((item) => !before[what].includes(item)).map((item) => `${what}: ${item}`),
  );
  return { changed, result: await USES[entry]?.(loaded) };
}

// Their pipes are made when they are first asked for.
void [process.stdout, process.stderr];
for (const entry of entries) {
  const told = await tell(entry).catch(({ code, message }) => ({ failed: `${code}: ${message}` }));
  console.log(JSON.stringify({ entry, ...told }));
}
