import { createFetch } from '@tollgate/fetch';
import { describe, it } from 'vitest';
import { SERVERS } from './limited.ts';

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
});
