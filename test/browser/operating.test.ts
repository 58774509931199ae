import type { AuditEvent } from '@tollgate/dashboard';
import { expect, it } from 'vitest';
import { browser, isLive, reads, SOON_MS, type Tab } from './chromium.ts';
import { serve } from './served.ts';

const open = browser();

const card = (limit: string): string => `section.limit:has(h2:text-is("${limit}"))`;
const figure = (limit: string, nth: number): string => `${card(limit)} .figures dd >> nth=${nth}`;

async function focused({ page }: Tab): Promise<string> {
  return (await page.evaluate(
    `(document.activeElement.id || document.activeElement.textContent).trim()`,
  )) as string;
}

/** Presses Tab until an element has the focus, and checks that one can see that it has. */
async function tabTo(tab: Tab, name: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await tab.page.keyboard.press('Tab');
    if ((await focused(tab)) !== name) continue;
    const outline = `(() => { const style = getComputedStyle(document.activeElement);
      return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; })()`;
    expect(await tab.page.evaluate(outline), `the focus of ${name}`).toBe(true);
    return;
  }
  throw new Error(`Tab does not reach ${name}; it is at ${await focused(tab)}.`);
}

it('shows what the API did', async () => {
  const { page: address, askTimes } = await serve();
  await askTimes(12, 'ada');
  await askTimes(3, 'grace');
  const tab = await open(address);
  await reads(tab, figure('caller', 0), /^8$/);
  await reads(tab, figure('caller', 1), /^7$/);
  await reads(tab, figure('caller', 2), /^46\.7 %$/);
  await reads(tab, figure('all', 0), /^8$/);
  await reads(tab, `${card('all')} .readout`, /7 more refused by other limits/);
  await reads(tab, `${card('stricter')} .badge`, /refuses nobody/);
  await reads(tab, `${card('caller')} .policy`, /^Sliding window: 5 per hour$/);
  await reads(tab, `${card('caller')} .row`, /^ada\s+7/);
  // What comes while one looks.
  await askTimes(2, 'ada');
  await reads(tab, figure('caller', 1), /^9$/);
  // The plot says the same in words and as a table.
  const summary = await tab.page.locator(`${card('caller')} .plot svg`).getAttribute('aria-label');
  expect(summary).toBe('caller: 8 admitted and 9 refused in the last 2 minutes');
  await tab.page.locator(`${card('caller')} summary`).click();
  const column = async (nth: number): Promise<number> => {
    const texts = await tab.page
      .locator(`${card('caller')} tbody tr td:nth-child(${nth})`)
      .allInnerTexts();
    return texts.reduce((sum, text) => sum + Number(text), 0);
  };
  expect([await column(2), await column(3)]).toEqual([8, 9]);
  for (const [range, text] of [
    ['1 hour', /the last hour$/],
    ['24 hours', /the last 24 hours$/],
  ] as const) {
    await tab.page.getByRole('radio', { name: range }).check();
    const label = (): Promise<string | null> =>
      tab.page.locator(`${card('caller')} .plot svg`).getAttribute('aria-label');
    await expect.poll(label, { timeout: SOON_MS }).toMatch(text);
    await reads(tab, figure('caller', 1), /^9$/);
  }
  expect(tab.troubles).toEqual([]);
});

it('is operated with the keyboard alone', async () => {
  const audit: AuditEvent[] = [];
  const {
    page: address,
    app,
    askTimes,
    ask,
  } = await serve({}, { onAudit: (event) => void audit.push(event) });
  await askTimes(7, 'ada');
  const remaining = async (): Promise<number> =>
    (await app.tollgate.limiter.peek({ caller: 'ada' })).remaining;
  const tab = await open(`${address}/`);
  await isLive(tab);
  const { keyboard } = tab.page;

  await tabTo(tab, 'lookup-key');
  await keyboard.type('ada');
  await keyboard.press('Enter');
  await reads(tab, '#key-standing', /Refused now: the limit is reached/);
  await reads(tab, '#key-standing', /Remaining\s+0 of 5/);
  await reads(tab, '#key-standing', /Retry after\s+(1 h|\d\d min)/);

  await tabTo(tab, 'Reset…');
  await keyboard.press('Enter');
  expect(await remaining()).toBe(0);
  expect(await focused(tab)).toBe('key-yes');
  await keyboard.press('Enter');
  await reads(tab, '#key-note', /as if never seen/);
  expect(await remaining()).toBe(5);
  await reads(tab, '#key-standing', /Remaining\s+5 of 5/);
  await expect.poll(() => focused(tab), { timeout: SOON_MS }).toBe('Reset…');

  await tabTo(tab, 'Ban…');
  await keyboard.press('Enter');
  expect(await focused(tab)).toBe('key-for-ms');
  await keyboard.press('ArrowDown');
  await tabTo(tab, 'key-yes');
  await keyboard.press('Enter');
  await reads(tab, '#key-standing', /Refused now: banned/);
  await reads(tab, '#key-standing', /Retry after\s+(1 h|59 min)/);
  expect(await ask('ada')).toBe(429);

  // Changing one's mind changes nothing.
  await tabTo(tab, 'Lift the ban…');
  await keyboard.press('Enter');
  await tabTo(tab, 'key-no');
  await keyboard.press('Enter');
  expect(await ask('ada')).toBe(429);
  expect(await focused(tab)).toBe('Lift the ban…');
  await keyboard.press('Enter');
  await keyboard.press('Enter');
  await reads(tab, '#key-standing', /Admitted now/);
  expect(await ask('ada')).toBe(200);

  await keyboard.press('Escape');
  await tab.page.locator('#key').waitFor({ state: 'hidden' });
  expect(await focused(tab)).toBe('lookup-key');
  expect(audit.map(({ action, key, by, forMs }) => [action, key, by, forMs])).toEqual([
    ['reset', 'ada', 'ada', undefined],
    ['ban', 'ada', 'ada', 3_600_000],
    ['unban', 'ada', 'ada', undefined],
  ]);
  expect(tab.troubles).toEqual([]);
});

it('opens a key of the list, which holds still meanwhile', async () => {
  const { page: address, askTimes } = await serve();
  await askTimes(8, 'ada');
  await askTimes(7, 'grace');
  const tab = await open(address);
  await reads(tab, `${card('caller')} .row`, /^ada/);
  await tab.page
    .locator(`${card('caller')} .row`)
    .nth(1)
    .focus();
  await askTimes(9, 'grace');
  await reads(tab, `${card('caller')} .row >> nth=1`, /^grace\s+11/);
  await tab.page.keyboard.press('Enter');
  await reads(tab, '#key-name', /^grace$/);
  await reads(tab, '#key-standing', /Refused now/);
  await tab.page.keyboard.press('Escape');
  await tab.page.evaluate('document.activeElement.blur()');
  await reads(tab, `${card('caller')} .row`, /^grace/);
  expect(tab.troubles).toEqual([]);
});

it('shows keys as text, whatever they hold', async () => {
  const { page: address, askTimes } = await serve();
  const keys = [
    '<img src=x onerror="window.pwned=1">',
    '"><script>window.pwned=1</script>',
    "javascript:window.pwned=1//'",
    '\u202egnp.exe\u0007',
  ];
  for (const key of keys) await askTimes(6, key);
  const tab = await open(address);
  await tab.page.locator(`${card('caller')} .row >> nth=3`).waitFor();
  const names = await tab.page.locator(`${card('caller')} .row .name`).allInnerTexts();
  expect(names.sort()).toEqual([...keys.slice(0, 3), '\\u202egnp.exe\\u0007'].sort());
  for (let i = 0; i < keys.length; i++) {
    await tab.page
      .locator(`${card('caller')} .row`)
      .nth(i)
      .click();
    await reads(tab, '#key-standing', /Remaining\s+0 of 5/);
    await tab.page.keyboard.press('Escape');
  }
  expect(await tab.page.evaluate('window.pwned')).toBeUndefined();
  expect(await tab.page.locator('main img, dialog img, main script').count()).toBe(0);
  expect(tab.troubles).toEqual([]);
});
