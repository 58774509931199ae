/** The look of the page, in light and dark, from a phone's width on. */
export const STYLE: string = /* css */ `
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --raised: #f0f2f6; --ink: #1a212c; --quiet: #586375; --line: #dce1e9;
  --admitted: #3f73c8; --refused: #c2460f; --refused-2: #f3b48f; --accent: #2f62b5; --on-accent: #ffffff;
  --good: #19733f; --good-bg: #e3f4e9; --warn: #8a5200; --warn-bg: #fdf0d8; --bad: #b02318; --bad-bg: #fde8e5;
  --shadow: 0 1px 2px rgb(20 30 50 / .06), 0 1px 6px rgb(20 30 50 / .04);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1319; --card: #181e27; --raised: #212936; --ink: #e6ebf2; --quiet: #9ba7b9; --line: #2e3745;
    --admitted: #6a9bea; --refused: #f39159; --refused-2: #8f4a20; --accent: #84aef2; --on-accent: #10161f;
    --good: #7cd69d; --good-bg: #16301f; --warn: #f0bd68; --warn-bg: #35280f; --bad: #ff9a8f; --bad-bg: #3d1b18;
    --shadow: none;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere;
}
.wrap { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }
h1, h2, h3, p, dl, dd, ol, figure, fieldset, legend { margin: 0; padding: 0; }
h1 { font-size: 1.125rem; line-height: 1.2; letter-spacing: -.01em; }
h2 { font-size: 1.125rem; line-height: 1.3; }
h3 { font-size: .875rem; line-height: 1.4; }
h3 .quiet { font-weight: normal; }
.quiet { color: var(--quiet); font-size: .8125rem; }
.number { font-variant-numeric: tabular-nums; }
.hidden {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap;
}
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 6px; }
.skip { position: absolute; left: 1rem; top: -4rem; background: var(--card); padding: .5rem 1rem; z-index: 2; }
.skip:focus { top: .5rem; }

.top { background: var(--card); border-bottom: 1px solid var(--line); }
.top .wrap { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; padding-block: .75rem; }
.brand { display: flex; align-items: center; gap: .625rem; margin-right: auto; }
.brand svg { width: 1.75rem; height: 1.75rem; flex: none; }
.pills { display: flex; flex-wrap: wrap; gap: .5rem; }
.pill {
  display: inline-flex; align-items: center; gap: .4375rem; padding: .1875rem .6875rem; border-radius: 99px;
  background: var(--raised); font-size: .8125rem; font-variant-numeric: tabular-nums;
}
.pill::before { content: ""; width: .5rem; height: .5rem; border-radius: 50%; background: var(--quiet); flex: none; }
.pill.good { background: var(--good-bg); color: var(--good); }
.pill.warn { background: var(--warn-bg); color: var(--warn); }
.pill.bad { background: var(--bad-bg); color: var(--bad); }
.pill.good::before { background: currentColor; }
.pill.warn::before { background: currentColor; border-radius: 1px; transform: rotate(45deg); }
.pill.bad::before { background: currentColor; border-radius: 1px; }

.banner {
  margin: 1rem 0 0; padding: .625rem 1rem; border-radius: 10px; background: var(--bad-bg); color: var(--bad);
  border: 1px solid currentColor; font-weight: 500;
}
.banner.warn { background: var(--warn-bg); color: var(--warn); }

.tools { display: flex; flex-wrap: wrap; align-items: end; justify-content: space-between; gap: .875rem 1.5rem; margin: 1.25rem 0 1rem; }
form.lookup { display: flex; flex-wrap: wrap; align-items: end; gap: .625rem; flex: 1 1 24rem; max-width: 44rem; }
label, .label { display: block; font-size: .8125rem; color: var(--quiet); }
.lookup .key { flex: 1 1 12rem; }
input, select, button { font: inherit; color: var(--ink); border-radius: 8px; }
input, select { font-size: .9375rem; }
input, select {
  display: block; width: 100%; margin-top: .1875rem; padding: .4375rem .625rem; min-height: 2.5rem;
  background: var(--card); border: 1px solid var(--quiet);
}
::placeholder { color: var(--quiet); opacity: 1; }
button {
  min-height: 2.5rem; padding: .375rem .9375rem; background: var(--card); border: 1px solid var(--quiet); cursor: pointer;
  font-weight: 500;
}
button:hover { background: var(--raised); }
button.main { background: var(--accent); color: var(--on-accent); border-color: var(--accent); }
button.main:hover { filter: brightness(1.08); }
button.danger { background: var(--bad); color: var(--card); border-color: var(--bad); }
button:disabled { opacity: .55; cursor: default; }
.ranges { border: 0; display: flex; }
.ranges label { position: relative; margin: 0; }
.ranges input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; min-height: 0; opacity: 0; cursor: pointer; }
.ranges span {
  display: block; padding: .4375rem .875rem; min-height: 2.5rem; border: 1px solid var(--quiet); border-right-width: 0;
  background: var(--card); color: var(--ink); font-size: .875rem; line-height: 1.5rem;
}
.ranges label:first-of-type span { border-radius: 8px 0 0 8px; }
.ranges label:last-of-type span { border-radius: 0 8px 8px 0; border-right-width: 1px; }
.ranges input:checked + span { background: var(--accent); color: var(--on-accent); border-color: var(--accent); font-weight: 600; }
.ranges input:focus-visible + span { outline: 3px solid var(--accent); outline-offset: 2px; z-index: 1; position: relative; }

.limit {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; box-shadow: var(--shadow);
  padding: 1.125rem 1.25rem 1.25rem; margin: 0 0 1rem;
  display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 21rem); gap: .875rem 2rem;
}
.limit > header { grid-column: 1 / -1; display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: .5rem 2rem; }
.title { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem .625rem; }
.badge {
  font-size: .75rem; font-weight: 600; padding: .0625rem .5rem; border-radius: 99px; border: 1px dashed var(--quiet);
  color: var(--quiet);
}
.policy { font-size: .875rem; }
.figures { display: flex; gap: .25rem 1.75rem; }
.figures div { text-align: right; }
.figures dt { color: var(--quiet); font-size: .8125rem; display: flex; align-items: center; justify-content: flex-end; gap: .375rem; }
.figures dd { font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.swatch { width: .75rem; height: .75rem; border-radius: 2px; flex: none; }
.swatch .a { fill: var(--admitted); }
.plot { position: relative; }
.plot svg { display: block; width: 100%; height: 9.5rem; overflow: visible; }
.plot .line { stroke: var(--line); stroke-width: 1; shape-rendering: crispEdges; }
.plot .base { stroke: var(--quiet); }
.plot text { fill: var(--quiet); font-size: 11px; font-variant-numeric: tabular-nums; }
.plot .admitted { fill: var(--admitted); }
.hatch { fill: var(--refused); }
.hatch-line { stroke: var(--refused-2); stroke-width: 1.5; }
.plot .before { fill: var(--raised); }
.plot .cursor { fill: var(--ink); opacity: .1; }
.readout { min-height: 1.25rem; font-size: .8125rem; color: var(--quiet); font-variant-numeric: tabular-nums; }
.none { display: grid; place-content: center; text-align: center; position: absolute; inset: 0 0 1.5rem; padding: 0 1rem; color: var(--quiet); font-size: .875rem; text-wrap: balance; }
.readout { padding-right: 7rem; }
details { font-size: .8125rem; margin-top: -1.375rem; }
summary { cursor: pointer; color: var(--quiet); width: fit-content; margin-left: auto; padding: .0625rem .25rem; border-radius: 4px; }
.scroll { max-height: 15rem; overflow: auto; border: 1px solid var(--line); border-radius: 8px; margin-top: .375rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: right; font-weight: normal; white-space: nowrap; }
th:first-child { text-align: left; }
thead th { position: sticky; top: 0; background: var(--raised); font-weight: 600; }
tbody tr + tr { border-top: 1px solid var(--line); }

.refused-keys h3 { display: flex; justify-content: space-between; gap: 1rem; padding-bottom: .375rem; border-bottom: 1px solid var(--line); }
.refused-keys ol { list-style: none; }
.refused-keys li + li { border-top: 1px solid var(--line); }
.row {
  display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 0 .75rem; width: 100%; text-align: left; border: 0;
  background: none; padding: .375rem .375rem; min-height: 2.75rem; border-radius: 6px; font-weight: normal;
}
.row .name { font: .875rem/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow: hidden; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; unicode-bidi: isolate; }
.row .many { font-variant-numeric: tabular-nums; font-weight: 600; text-align: right; }
.row .quiet { line-height: 1.3; }
.row .quiet:last-child { text-align: right; }
.row .bar { grid-column: 1 / -1; height: 3px; margin-top: .25rem; width: 100%; display: block; }
.row .bar rect { fill: var(--refused); }
.row .bar .track { fill: var(--raised); }
.empty { padding: 1rem .375rem; color: var(--quiet); font-size: .875rem; }
.more { border: 0; background: none; color: var(--accent); font-size: .8125rem; padding: .25rem .375rem; min-height: 2rem; }
.lone { background: var(--card); border: 1px dashed var(--quiet); border-radius: 12px; padding: 2rem 1.25rem; text-align: center; }
.stale main { filter: grayscale(1); }
footer { margin: .5rem 0 2.5rem; display: grid; gap: .25rem; }

dialog {
  width: min(34rem, calc(100vw - 1.5rem)); max-height: calc(100dvh - 1.5rem); overflow: auto; padding: 0;
  color: var(--ink); background: var(--card); border: 1px solid var(--line); border-radius: 14px;
  box-shadow: 0 12px 48px rgb(0 0 0 / .3);
}
dialog::backdrop { background: rgb(10 14 20 / .55); }
.sheet { padding: 1.125rem 1.25rem 1.25rem; display: grid; gap: .875rem; }
.sheet header { display: flex; align-items: start; justify-content: space-between; gap: 1rem; }
.sheet h2 { font: 600 1rem/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; unicode-bidi: isolate; }
.close { border: 0; background: none; padding: .25rem .5rem; min-height: 2rem; }
.verdict { border-radius: 10px; padding: .625rem .875rem; background: var(--raised); display: grid; gap: .125rem; }
.verdict strong { font-size: 1.0625rem; }
.verdict.good { background: var(--good-bg); color: var(--good); }
.verdict.bad { background: var(--bad-bg); color: var(--bad); }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1.25rem; font-variant-numeric: tabular-nums; }
.facts dt { color: var(--quiet); }
.facts dd { text-align: right; }
#key-standing { display: grid; gap: .75rem; }
#key-note:empty { margin-top: -.875rem; }
.gauge { display: block; width: 100%; height: .375rem; margin-top: .375rem; }
.gauge rect { fill: currentColor; opacity: .2; }
.gauge .left { opacity: 1; }
.actions { display: flex; flex-wrap: wrap; gap: .625rem; border-top: 1px solid var(--line); padding-top: .875rem; }
.confirm { display: grid; gap: .75rem; border-top: 1px solid var(--line); padding-top: .875rem; }
.confirm .buttons { display: flex; flex-wrap: wrap; gap: .625rem; }
.note { padding: .5rem .75rem; border-radius: 8px; background: var(--good-bg); color: var(--good); }
.note.bad { background: var(--bad-bg); color: var(--bad); }

@media (max-width: 50rem) {
  /* Below 16 pixels phones zoom in on what one types into. */
  input, select { font-size: 1rem; }
  .wrap { padding: 0 .75rem; }
  .limit { grid-template-columns: minmax(0, 1fr); padding: 1rem .875rem; gap: .75rem; }
  .limit > header { grid-template-columns: minmax(0, 1fr); }
  .figures { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .75rem; }
  .figures div { text-align: left; }
  .figures dt { justify-content: flex-start; }
  .figures dd { font-size: 1.25rem; }
  .tools { margin-top: 1rem; }
  .lookup .limit-name { flex: 1 1 8rem; }
  .lookup button { flex: 1 1 100%; }
  .ranges, .ranges label { flex: 1; text-align: center; }
  .tools fieldset { flex: 1 1 100%; }
}
@media (prefers-reduced-motion: no-preference) { .pill.good::before { animation: beat 2s infinite; } }
@keyframes beat { 50% { opacity: .35; } }
`;
