import { expect, it } from 'vitest';
import { browser, isLive, LAPTOP, PHONE, reads } from './chromium.ts';
import { serve } from './served.ts';

const open = browser();

/** The least contrast of text with what is behind it, and which text that is. */
const CONTRAST = `(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((each) => {
      const share = each / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = channels(getComputedStyle(each).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  let least = { ratio: Infinity, text: '' };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const element = walker.currentNode.parentElement;
    if (text === '' || /SCRIPT|STYLE|OPTION/.test(element.tagName) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ink = luminance(channels(element instanceof SVGElement ? style.fill : style.color));
    const ground = luminance(behind(element));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (ratio < least.ratio) least = { ratio, text };
  }
  return least;
})()`;

/** How far the page is wider than its window, and what sticks out of it. */
const OVERHANG = `({
  by: document.documentElement.scrollWidth - innerWidth,
  what: [...document.querySelectorAll('body *')]
    .filter((each) => each.checkVisibility() && !each.closest('.scroll, .hidden, .row .name'))
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5)
    .map((each) => each.outerHTML.slice(0, 80)),
})`;

/** Controls that are too small for a finger. */
const SMALL = `[...document.querySelectorAll('button, select, input:not([type=radio]), .ranges span')]
  .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 32)
  .map((each) => each.outerHTML.slice(0, 80))`;

const VIEWS = [
  ['laptop', 'light', LAPTOP],
  ['laptop', 'dark', LAPTOP],
  ['phone', 'light', PHONE],
  ['phone', 'dark', PHONE],
  ['small phone', 'light', { width: 320, height: 568 }],
] as const;

it.each(VIEWS)('reads well on a %s, %s', async (device, colorScheme, viewport) => {
  const { page: address, askTimes } = await serve();
  await askTimes(9, 'ada');
  await askTimes(7, `grace ${'x'.repeat(200)}`);
  const tab = await open(address, { colorScheme, viewport, hasTouch: device !== 'laptop' });
  await isLive(tab);
  const check = async (): Promise<void> => {
    expect(await tab.page.evaluate(OVERHANG)).toEqual({ by: 0, what: [] });
    const { ratio, text } = (await tab.page.evaluate(CONTRAST)) as { ratio: number; text: string };
    expect(ratio, text).toBeGreaterThanOrEqual(4.5);
    expect(await tab.page.evaluate(SMALL)).toEqual([]);
  };
  await check();
  const background = await tab.page.evaluate('getComputedStyle(document.body).backgroundColor');
  expect(background).toBe(colorScheme === 'dark' ? 'rgb(15, 19, 25)' : 'rgb(245, 246, 248)');
  await tab.page.locator('.row', { hasText: 'grace' }).first().click();
  await reads(tab, '#key-standing', /Refused now/);
  await check();
  await tab.page.locator('[data-action=ban]').click();
  await check();
  expect(tab.troubles).toEqual([]);
});

it('draws refused apart from admitted without their colours', async () => {
  const { page: address, askTimes } = await serve();
  await askTimes(9, 'ada');
  const tab = await open(address);
  await isLive(tab);
  const fill = await tab.page.locator('.plot path:not(.admitted)').first().getAttribute('fill');
  expect(fill).toMatch(/^url\(#hatch-\d+\)$/);
  const id = fill?.slice(5, -1);
  expect(await tab.page.locator(`pattern[id="${id}"] line`).count()).toBe(1);
  // Both stand at the right, where it is now, and as high as they are many.
  const boxes = `[...document.querySelectorAll('.limit:first-of-type .plot path')].map((each) => {
    const { x, y, width, height } = each.getBBox();
    return { right: x + width, top: y, bottom: y + height };
  })`;
  const [admitted, refused] = (await tab.page.evaluate(boxes)) as [Box, Box];
  expect(admitted.bottom).toBeGreaterThan(refused.bottom);
  expect(refused.top).toBeLessThan(admitted.top);
  expect(refused.right).toBeGreaterThan(500);
  expect(tab.troubles).toEqual([]);
});

interface Box {
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

it('says what to do where there is nothing yet', async () => {
  const { page: address } = await serve();
  const tab = await open(address);
  await reads(tab, '.limit .none', /^No decisions in the last 2 minutes\. Send a request/);
  await reads(tab, '.limit .empty', /^Nobody was refused yet\./);
  const empty = await open((await serve({ limits: [] })).page);
  await reads(empty, 'main', /This gate has no limits yet\s+Give it limits/);
  expect([...tab.troubles, ...empty.troubles]).toEqual([]);
});

it('has names for all that one can operate, and headings in order', async () => {
  const { page: address, askTimes } = await serve();
  await askTimes(7, 'ada');
  const tab = await open(address);
  await isLive(tab);
  const { page } = tab;
  for (const [role, name] of [
    ['combobox', 'Limit'],
    ['textbox', 'Key'],
    ['button', 'Look up'],
    ['radio', '2 minutes'],
    ['region', 'caller'],
    ['region', 'Keys that caller refused most'],
    ['img', /^caller: 5 admitted and 2 refused/],
    ['link', 'Skip to the limits'],
  ] as const) {
    expect(await page.getByRole(role, { name, exact: true }).count(), `${role} ${name}`).toBe(1);
  }
  const levels = (await page.evaluate(
    `[...document.querySelectorAll('h1, h2, h3')].filter((each) => each.checkVisibility()).map(({ tagName }) => tagName)`,
  )) as string[];
  expect(levels[0]).toBe('H1');
  expect(levels.slice(1).join(' ')).toMatch(/^(H2 H3 ?)+$/);
  await page.getByRole('button', { name: /^ada/ }).first().click();
  expect(await page.getByRole('dialog', { name: 'ada' }).count()).toBe(1);
  expect(tab.troubles).toEqual([]);
});
