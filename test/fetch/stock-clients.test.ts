import axios from 'axios';
import axiosRetry from 'axios-retry';
import got from 'got';
import ky from 'ky';
import { Agent, request, RetryAgent } from 'undici';
import { describe, it } from 'vitest';
import { ownExpress, ownFastify } from './limited.ts';

/** Clients that people use, with the least options that let them retry a 429. */
const CLIENTS: Readonly<Record<string, (url: string) => Promise<number>>> = {
  got: async (url) => (await got(url)).statusCode,
  'axios-retry': async (url) => {
    const client = axios.create();
    axiosRetry(client, {
      retries: 1,
      // Left alone it retries 5xx only.
      retryCondition: ({ response }) => response?.status === 429,
      retryDelay: (count, error) => axiosRetry.exponentialDelay(count, error, 100),
    });
    return (await client.get(url)).status;
  },
  "undici's RetryAgent": async (url) => {
    const agent = new RetryAgent(new Agent());
    const { statusCode, body } = await request(url, { dispatcher: agent });
    await body.dump();
    await agent.close();
    return statusCode;
  },
  ky: async (url) => (await ky(url)).status,
};

const SERVERS = [ownFastify(), ownExpress()];

const CASES = SERVERS.flatMap((server) =>
  Object.entries(CLIENTS).map(([client, get]) => ({ client, get, ...server })),
);

describe('a refusal of', () => {
  it.concurrent.for(CASES)(
    '$name is understood by $client',
    async ({ get, start }, { expect, onTestFinished }) => {
      const { url, hits } = await start(onTestFinished);
      // Two are served at once; on a slow machine perhaps one more.
      const isRefused = (): boolean => hits.some(({ status }) => status === 429);
      for (let i = 0; i < 9 && !isRefused(); i++) expect(await get(url)).toBe(200);
      // The first retry is served already: the client waited for as long as it was told.
      expect(hits.filter(({ status }) => status === 429)).toHaveLength(1);
      const [refused, retried] = hits.slice(-2);
      expect([refused?.status, retried?.status]).toEqual([429, 200]);
      const waitedMs = (retried?.atMs ?? NaN) - (refused?.atMs ?? NaN);
      expect(waitedMs).toBeGreaterThanOrEqual((refused?.retryAfter ?? NaN) * 1_000 - 5);
      // Beyond that only what the client adds, on a busy machine.
      expect(waitedMs).toBeLessThanOrEqual(4_500);
    },
  );
});
