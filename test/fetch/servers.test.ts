import { createFetch, readRateLimit } from '@tollgate/fetch';
import { describe, it } from 'vitest';
import { expressRateLimit, ownExpress, ownFastify, rateLimitOfFastify } from './limited.ts';

const SERVERS = [
  ownFastify(),
  ownExpress(),
  ownFastify(['draft-7']),
  ownExpress(['x-ratelimit']),
  ownFastify(['draft-11']),
  expressRateLimit('draft-6'),
  expressRateLimit('draft-7'),
  expressRateLimit('draft-8'),
  expressRateLimit(false),
  rateLimitOfFastify(false),
  rateLimitOfFastify(true),
];

describe('a server limited by', () => {
  it.concurrent.for(SERVERS)(
    '$name is obeyed: no request comes too early, all are served',
    async ({ start }, { expect, onTestFinished }) => {
      const { url, hits } = await start(onTestFinished);
      const fetch = createFetch();
      // Two are served at once; on a slow machine perhaps one more.
      const isRefused = (): boolean => hits.some(({ status }) => status === 429);
      for (let i = 0; i < 9 && !isRefused(); i++) {
        const response = await fetch(url, { method: i % 2 === 1 ? 'POST' : 'GET' });
        expect(await response.text()).toBe('served');
      }
      const [refused, retried] = hits.slice(-2);
      expect([refused?.status, retried?.status]).toEqual([429, 200]);
      expect(refused?.retryAfter).toBeGreaterThanOrEqual(1);
      const waitedMs = (retried?.atMs ?? NaN) - (refused?.atMs ?? NaN);
      expect(waitedMs).toBeGreaterThanOrEqual((refused?.retryAfter ?? NaN) * 1_000);
    },
  );

  it.concurrent.for(SERVERS)(
    '$name is paced by: nothing is refused',
    async ({ start }, { expect, onTestFinished }) => {
      const { url, hits } = await start(onTestFinished);
      const fetch = createFetch({ pace: true });
      // One asks how things stand, the others are told.
      const first = await fetch(url);
      expect(readRateLimit(first).limits.map(({ remaining }) => remaining)).toEqual([1]);
      await first.text();
      const answers = await Promise.all([fetch(url), fetch(url), fetch(url)]);
      for (const answer of answers) expect(await answer.text()).toBe('served');
      expect(hits.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    },
  );
});
