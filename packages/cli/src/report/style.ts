/** The look of an HTML report, in light and dark, from a phone's width on. */
export const STYLE: string = /* css */ `
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b2330; --quiet: #5a6576; --line: #dde2ea;
  --admitted: #4a7fd4; --refused: #d4541b; --track: #eef1f6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161d; --card: #1b212b; --ink: #e8ecf2; --quiet: #9aa6b8; --line: #323b49;
    --admitted: #5b8fe0; --refused: #f08a4b; --track: #262e3a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 64rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif;
}
header, section {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.25rem; margin: 0 0 1rem;
}
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.2rem; margin: 0; overflow-wrap: anywhere; }
h1, h2, figcaption { line-height: 1.25; }
p { margin: .25rem 0 .75rem; overflow-wrap: anywhere; }
code { font: .875em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); font-weight: normal; font-size: .875rem; }
.figures { display: flex; flex-wrap: wrap; gap: .25rem 2rem; margin: 0 0 .75rem; }
.figures dt { color: var(--quiet); font-size: .875rem; }
.figures dd { margin: 0; font-size: 1.375rem; font-variant-numeric: tabular-nums; }
.figures small { color: var(--quiet); font-size: .875rem; }
figure { margin: 1rem 0 0; }
figcaption { font-weight: 600; margin: 0 0 .375rem; }
.legend { display: flex; gap: 1rem; font-size: .875rem; }
.key::before {
  content: ""; display: inline-block; width: .75em; height: .75em; margin-right: .375em; border-radius: 2px;
  background: var(--admitted);
}
.key.refused::before { background: var(--refused); }
.plot { position: relative; margin-top: .25rem; }
.plot .most { font-size: .75rem; color: var(--quiet); font-variant-numeric: tabular-nums; }
.time svg {
  display: block; width: 100%; height: 10rem; background: var(--track); border-radius: 4px;
  border-bottom: 1px solid var(--quiet);
}
.axis {
  display: flex; justify-content: space-between; flex-wrap: wrap; gap: 0 1rem; color: var(--quiet);
  font-size: .75rem; font-variant-numeric: tabular-nums;
}
rect { shape-rendering: crispEdges; }
rect.admitted { fill: var(--admitted); }
rect.refused { fill: var(--refused); }
rect.hit { fill: transparent; }
g:hover .hit { fill: var(--line); }
.bars { list-style: none; margin: 0; padding: 0; }
.bars li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; padding: .25rem 0; }
.bars .value { font-variant-numeric: tabular-nums; margin-left: auto; text-align: right; }
.bars svg { flex: 0 0 100%; width: 100%; height: .5rem; background: var(--track); border-radius: 3px; }
.bad li { margin-bottom: .5rem; }
ul:empty { display: none; }
@media print { body { background: none; } header, section { break-inside: avoid; } }
`;
