import { createFetch, readRateLimit } from '@tollgate/fetch';
import { describe, it } from 'vitest';
import { SERVERS } from './limited.ts';

describe('a server limited by', () => {
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
