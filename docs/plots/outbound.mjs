// Runs the comparison of examples/storm.mjs, draws it as docs/plots/outbound.svg, and prints its table for
// docs/outbound.md. It takes up to four minutes: `node docs/plots/outbound.mjs`.
import { writeFileSync } from 'node:fs';
import { compare, tableOf } from '../../examples/storm.mjs';

const COLOURS = ['#c0392b', '#d68910', '#2471a3', '#1e8449'];
const PANEL = { width: 380, height: 240, left: 56, top: 56, gap: 84 };

/** How many events of a kind there were by each moment, at most so many points. */
function cumulative(events, kind, endMs) {
  const moments = events.filter(({ event }) => event === kind).map(({ atMs }) => atMs);
  const points = [[0, 0]];
  const every = Math.max(1, Math.floor(moments.length / 200));
  for (const [index, atMs] of moments.entries()) {
    if (index % every === 0 || index === moments.length - 1) points.push([atMs, index + 1]);
  }
  points.push([endMs, moments.length]);
  return points;
}

/** A round number of at least `value`, and the step of a scale up to it. */
function scaleOf(value) {
  const magnitude = 10 ** Math.floor(Math.log10(value));
  const step = [0.1, 0.2, 0.5, 1, 2]
    .map((part) => part * magnitude)
    .find((each) => value / each <= 6);
  return { most: Math.ceil(value / step) * step, step };
}

function panel(title, series, left, endMs) {
  const { width, height, top } = PANEL;
  const x = scaleOf(endMs / 1_000);
  const y = scaleOf(Math.max(...series.map((points) => points.at(-1)[1])));
  const toX = (ms) => (left + (ms / 1_000 / x.most) * width).toFixed(1);
  const toY = (count) => (top + height - (count / y.most) * height).toFixed(1);
  const parts = [`<text x="${left}" y="${top - 14}" class="title">${title}</text>`];
  for (let count = 0; count <= y.most; count += y.step) {
    parts.push(
      `<line x1="${left}" x2="${left + width}" y1="${toY(count)}" y2="${toY(count)}" class="grid"/>`,
      `<text x="${left - 8}" y="${Number(toY(count)) + 4}" class="end">${count.toLocaleString('en')}</text>`,
    );
  }
  for (let seconds = 0; seconds <= x.most; seconds += x.step) {
    const at = toX(seconds * 1_000);
    parts.push(`<text x="${at}" y="${top + height + 18}" class="middle">${seconds} s</text>`);
  }
  for (const [index, points] of series.entries()) {
    const line = points.map(([ms, count]) => `${toX(ms)},${toY(count)}`).join(' ');
    parts.push(`<polyline points="${line}" stroke="${COLOURS[index]}" class="line"/>`);
  }
  return parts.join('\n');
}

function draw(runs) {
  const { width, height, left, top, gap } = PANEL;
  const endMs = Math.max(...runs.map(({ events }) => events.at(-1).atMs));
  const seriesOf = (kind) => runs.map(({ events }) => cumulative(events, kind, events.at(-1).atMs));
  const wide = left + 2 * width + gap + 24;
  const high = top + height + 48 + runs.length * 20;
  const legend = runs.map(({ strategy }, index) => {
    const y = top + height + 48 + index * 20;
    return `<rect x="${left}" y="${y - 9}" width="18" height="4" fill="${COLOURS[index]}"/>
<text x="${left + 26}" y="${y - 3}">${strategy}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${wide}" height="${high}" viewBox="0 0 ${wide} ${high}" role="img">
<title>200 clients at once, a server that serves 20 a second: clients served and requests sent over time</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-size: 14px; font-weight: 600 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.grid { stroke: #ddd }
.line { fill: none; stroke-width: 2 }
</style>
<rect width="100%" height="100%" fill="#fff"/>
${panel('Clients served', seriesOf('served'), left, endMs)}
${panel('Requests sent', seriesOf('sent'), left + width + gap, endMs)}
${legend.join('\n')}
</svg>
`;
}

const runs = await compare();
writeFileSync(new URL('outbound.svg', import.meta.url), draw(runs));
console.log(tableOf(runs));
