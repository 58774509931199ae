import { createHash } from 'node:crypto';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** What browsers let the page do: its own script and style, its own data, and nothing that makes markup of a text. */
export const PAGE_POLICY: string = [
  "default-src 'none'",
  `script-src ${hashOf(SCRIPT)}`,
  `style-src ${hashOf(STYLE)}`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const ICON =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 32 32%22%3E%3Crect width=%2232%22 height=%2232%22 rx=%227%22 fill=%22%233f73c8%22/%3E%3Cpath d=%22M8 24V9m0 3 17 7%22 stroke=%22%23fff%22 stroke-width=%223.5%22 stroke-linecap=%22round%22 fill=%22none%22/%3E%3C/svg%3E';

/** The page, the same for everybody: what it shows is fetched, and none of that becomes markup. */
export const PAGE: string = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Tollgate</title>
<link rel="icon" href="${ICON}">
<style>${STYLE}</style>
</head>
<body>
<a class="skip" href="#limits">Skip to the limits</a>
<div class="top"><header class="wrap">
<div class="brand">
<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#3f73c8"/><path d="M8 24V9m0 3 17 7" stroke="#fff" stroke-width="3.5" stroke-linecap="round" fill="none"/></svg>
<div><h1>Tollgate</h1><p id="process" class="quiet"></p></div>
</div>
<div class="pills"><span id="store" class="pill">Store</span><span id="live" class="pill">Loading</span></div>
</header></div>
<div class="wrap">
<div id="banner" class="banner" role="alert" hidden></div>
<div id="store-banner" class="banner warn" role="alert" hidden></div>
<noscript><p class="banner">This page needs JavaScript: its script is its own and fetches nothing from elsewhere.</p></noscript>
<div class="tools">
<form id="lookup" class="lookup" role="search" aria-label="A key">
<label class="limit-name">Limit<select id="lookup-limit" required></select></label>
<label class="key">Key<input id="lookup-key" required autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="such as 203.0.113.7"></label>
<button class="main">Look up</button>
</form>
<fieldset class="ranges" id="ranges"><legend class="hidden">Time shown</legend>
<label><input type="radio" name="range" value="2m" checked><span>2 minutes</span></label><label><input type="radio" name="range" value="1h"><span>1 hour</span></label><label><input type="radio" name="range" value="24h"><span>24 hours</span></label>
</fieldset>
</div>
<main id="limits" tabindex="-1" aria-label="Limits"></main>
<footer class="quiet"><p id="about-plots"></p><p id="about-keys"></p><p id="about-store"></p></footer>
</div>
<dialog id="key" aria-labelledby="key-name"><div class="sheet">
<header><div><p class="quiet" id="key-limit"></p><h2 id="key-name"></h2></div><button type="button" class="close" id="key-close">Close</button></header>
<label id="key-policy-label" hidden>Policy to look by<select id="key-policy"></select></label>
<div id="key-note" role="status"></div>
<div id="key-standing"></div>
<div id="key-actions" class="actions"><button type="button" data-action="reset">Reset…</button><button type="button" data-action="ban">Ban…</button><button type="button" data-action="unban">Lift the ban…</button></div>
<form id="key-confirm" class="confirm" hidden><p id="key-question"></p>
<label id="key-for" hidden>For<select id="key-for-ms"><option value="60000">1 minute</option><option value="600000" selected>10 minutes</option><option value="3600000">1 hour</option><option value="86400000">1 day</option><option value="604800000">7 days</option><option value="2592000000">30 days</option></select></label>
<div class="buttons"><button class="danger" id="key-yes"></button><button type="button" id="key-no">Cancel</button></div></form>
</div></dialog>
<script>${SCRIPT}</script>
</body>
</html>
`;
