import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { RedisServer } from '../redis/server.ts';
import { browser, isLive, reads, SOON_MS } from './chromium.ts';
import { serve } from './served.ts';

const open = browser();

/** What the browser itself says in its console of an answer that failed. */
const isFailedFetch = (trouble: string): boolean =>
  trouble.startsWith('error: Failed to load resource');

it('says that it shows the past while the server is away, and goes on when it is back', async () => {
  const { app, page: address, askTimes, url } = await serve();
  await askTimes(7, 'ada');
  const tab = await open(address);
  await reads(tab, '.figures dd >> nth=1', /^2$/);
  await app.close();
  await reads(
    tab,
    '#banner',
    /^The server does not answer\. What you see is from \d\d:\d\d:\d\d\./,
  );
  await reads(tab, '#live', /^Not updating$/);
  await reads(tab, '.figures dd >> nth=1', /^2$/);
  const again = await serve({}, {}, Number(new URL(url).port));
  await again.askTimes(8, 'ada');
  await reads(tab, '.figures dd >> nth=1', /^3$/);
  await tab.page.locator('#banner').waitFor({ state: 'hidden' });
  await isLive(tab);
  expect(tab.troubles.filter((each) => !isFailedFetch(each))).toEqual([]);
});

it('says why when it may not be seen any more', async () => {
  let isSignedIn = true;
  const { page: address, askTimes } = await serve({}, { authorize: () => isSignedIn });
  await askTimes(7, 'ada');
  const tab = await open(address);
  await isLive(tab);
  await tab.page.locator('.row').first().click();
  await reads(tab, '#key-standing', /Refused now/);
  isSignedIn = false;
  await reads(tab, '#banner', /^authorize does not say yes to this request\./);
  await tab.page.locator('[data-action=reset]').click();
  await tab.page.locator('#key-yes').click();
  await reads(tab, '#key-note', /authorize does not say yes/);
  isSignedIn = true;
  await isLive(tab);
  expect(tab.troubles.filter((each) => !isFailedFetch(each))).toEqual([]);
});

it('asks for nothing while nobody sees it', async () => {
  const { page: address } = await serve();
  const tab = await open(address);
  await isLive(tab);
  let asked = 0;
  tab.page.on('request', () => asked++);
  const see = (isHidden: boolean): Promise<unknown> =>
    tab.page
      .evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  await see(true);
  await reads(tab, '#live', /^Paused$/);
  asked = 0;
  await tab.page.waitForTimeout(2_500);
  expect(asked).toBe(0);
  await see(false);
  await isLive(tab);
  await expect.poll(() => asked, { timeout: SOON_MS }).toBeGreaterThan(1);
  expect(tab.troubles).toEqual([]);
});

it('shows how Redis is, and whose most refused keys these are', async () => {
  const redis = await RedisServer.start();
  const client = new Redis(redis.port, '127.0.0.1', { lazyConnect: true });
  let isStopped = false;
  onTestFinished(async () => {
    if (!isStopped) await redis.stop();
  });
  const { page: address, askTimes } = await serve({
    store: redisStore(client, { deadlineMs: 2_000, breaker: { failures: 1 } }),
  });
  await askTimes(7, 'ada');
  const tab = await open(address);
  await reads(tab, '#store', /^Store up since/);
  await reads(tab, '.refused-keys h3', /all processes, 24 h$/);
  await reads(tab, '.row', /^ada\s+2/);
  await redis.stop();
  isStopped = true;
  await askTimes(2, 'ada');
  await reads(tab, '#store', /^Store (down|probing) since/);
  await reads(tab, '#store-banner', /^The store does not answer since/);
  await reads(tab, '.refused-keys h3', /this process, 24 h$/);
  await reads(tab, '#about-keys', /does not tell the most refused keys of all processes/);
  expect(tab.troubles.filter((each) => !isFailedFetch(each))).toEqual([]);
});
