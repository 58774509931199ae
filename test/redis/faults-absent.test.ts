import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { describe, onTestFinished, test } from 'vitest';
import { ABSENCES, type Fault, Site } from './faults.ts';
import { live } from './outage.ts';

/** What every limit answers, and that all of them ask Redis again within a second of its return. */
describe.each(ABSENCES)('Redis is $name', (fault: Fault) => {
  test('with ioredis', async () => {
    const site = await Site.open();
    const client = new Redis(site.proxy.port, '127.0.0.1', { lazyConnect: true });
    onTestFinished(() => client.disconnect());
    await live(site, redisStore(client), fault);
  });
});
