import { existsSync } from 'node:fs';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** How long a page may take to show what happened, on a machine that is busy. */
export const SOON_MS = 20_000;

export const LAPTOP = { width: 1366, height: 900 } as const;
export const PHONE = { width: 390, height: 844 } as const;

function executable(): string {
  const named = process.env['CHROMIUM_PATH'];
  const found = named ?? PLACES.find((place) => existsSync(place));
  if (found !== undefined && existsSync(found)) return found;
  throw new Error(
    `${named === undefined ? 'There is no Chromium' : `There is no ${named}`}. Install one, such as with "apt-get install chromium", or name it in CHROMIUM_PATH.`,
  );
}

/** A page under test, and everything that went wrong in it. */
export interface Tab {
  readonly page: Page;
  /** What the console, the page's own errors and its content security policy say. */
  readonly troubles: readonly string[];
}

/** Opens pages in one browser for all tests of a file. Each has a profile of its own. */
export function browser(): (url: string, options?: BrowserContextOptions) => Promise<Tab> {
  let started: Browser;
  beforeAll(async () => {
    started = await chromium.launch({ executablePath: executable(), headless: true, args: FLAGS });
  }, 60_000);
  afterAll(() => started?.close());
  return async (url, options = {}) => {
    const context = await started.newContext({ viewport: LAPTOP, ...options });
    onTestFinished(() => context.close());
    context.setDefaultTimeout(SOON_MS);
    const page = await context.newPage();
    const troubles: string[] = [];
    page.on('console', (message) => {
      if (message.type() !== 'log') troubles.push(`${message.type()}: ${message.text()}`);
    });
    page.on('pageerror', (error) => troubles.push(`error: ${error.stack ?? error.message}`));
    page.on('dialog', (dialog) => {
      troubles.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.exposeFunction('tellViolation', (text: string) => troubles.push(`policy: ${text}`));
    await page.addInitScript(
      `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
        tellViolation(violatedDirective + ' ' + blockedURI))`,
    );
    await page.goto(url);
    return { page, troubles };
  };
}

/** Waits until the page has fetched its data once and says so. */
export async function isLive({ page }: Tab): Promise<void> {
  await page.locator('#live', { hasText: 'Live' }).waitFor();
}

/** Waits until an element's text is this. */
export async function reads(tab: Tab, selector: string, text: string | RegExp): Promise<void> {
  await expect
    .poll(() => tab.page.locator(selector).first().innerText(), { timeout: SOON_MS })
    .toMatch(text);
}
