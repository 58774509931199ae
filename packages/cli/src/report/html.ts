import type { LimitReport, ReplayReport } from '../replay/report.ts';
import { escape } from './escape.ts';
import { algorithmPlot, keyPlot, timePlot } from './plots.ts';
import { printable } from './printable.ts';
import { STYLE } from './style.ts';
import { limitNotes, notes } from './text.ts';
import { byText, count, counted, matchText, percent, policyText, span } from './words.ts';

/**
 * A report as one page that needs nothing else: no script, no font, nothing from elsewhere, which its policy forbids as
 * well. Whatever comes from the log or the limits file is text and never markup.
 */
export function htmlReport(report: ReplayReport): string {
  const { requests, fromMs, toMs, refused, refusedShare, timeline } = report;
  const when =
    fromMs === undefined || toMs === undefined ? 'no requests' : `${span(fromMs, toMs)} UTC`;
  const plot = timePlot('All limits together', timeline, timeline.admitted, timeline.refused);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Replay of ${escape(printable(report.logs.join(', ')))}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>What limits would have done</h1>
<p class="quiet">${escape(printable(report.logs.join(', ')))}<br>${when}</p>
<dl class="figures">
${figure('requests', count(requests))}
${figure('admitted', count(report.admitted))}
${figure('refused', `${count(refused)} <small>${percent(refusedShare)}</small>`)}
</dl>
${requests > 0 ? plot : ''}
</header>
<main>
${report.limits.map((limit) => limitSection(limit, report)).join('\n')}
${linesSection(report)}
</main>
</body>
</html>
`;
}

/** @param value HTML. */
function figure(name: string, value: string): string {
  return `<div><dt>${name}</dt><dd>${value}</dd></div>`;
}

function limitSection(limit: LimitReport, { timeline }: ReplayReport): string {
  const { name, policy, by, match, shadow, requests, refused, refusedShare, top, algorithms } =
    limit;
  const series = timeline.limits[name] ?? { requests: [], refused: [] };
  const passed = series.requests.map((each, i) => each - (series.refused[i] ?? 0));
  const matched = match === undefined ? '' : `, on ${matchText(match)}`;
  return `<section>
<h2>${escape(name)}${shadow ? ' <small class="quiet">shadow</small>' : ''}</h2>
<p>${escape(printable(`${policyText(policy)}, by ${byText(by)}${matched}`))}</p>
<dl class="figures">
${figure('requests', count(requests))}
${figure('refused', `${count(refused)} <small>${percent(refusedShare)}</small>`)}
</dl>
${limitNotes(limit).map(paragraph).join('\n')}
${requests > 0 ? timePlot('Over time', timeline, passed, series.refused) : ''}
${top.length > 0 ? keyPlot(top, limit.topIsExact) : ''}
${algorithms !== undefined && algorithms.length > 0 ? algorithmPlot(algorithms) : ''}
</section>`;
}

function paragraph(text: string): string {
  return `<p class="quiet">${escape(text)}</p>`;
}

function linesSection(report: ReplayReport): string {
  const bad = report.firstBadLines.map(
    ({ log, line, reason, text }) =>
      `<li><code>${escape(printable(`${log}:${line}`))}</code>: ${escape(reason)}<br><code>${escape(printable(text))}</code></li>`,
  );
  return `<section>
<h2>Lines</h2>
<p>${counted(report.lines, 'line')} read.</p>
<ul>${notes(report)
    .map((note) => `<li>${escape(note)}</li>`)
    .join('')}</ul>
${bad.length > 0 ? `<p>The first bad lines:</p><ol class="bad">${bad.join('\n')}</ol>` : ''}
</section>`;
}
