import { redisStore } from '@tollgate/core/redis';
import { createClient } from 'redis';
import { describe, test } from 'vitest';
import { ABSENCES, type Fault, Site } from './faults.ts';
import { live } from './outage.ts';

/** The faults in which it is the client's part to notice that Redis is back. */
describe.each(ABSENCES.slice(0, 3))('Redis is $name', (fault: Fault) => {
  test('with node-redis', async () => {
    const site = await Site.open();
    const client = createClient({ socket: { host: '127.0.0.1', port: site.proxy.port } });
    await live(site, redisStore(client), fault);
  });
});
