// What the plots have in common: the page, the axes and the lines. Every plot's module exports draw(), which returns
// the text of its SVG and gives the same text every time; run by itself it writes the file beside it.
import { realpathSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Seen as an image, an SVG follows the reader's colour scheme by itself; its own ground keeps it readable on any. */
const STYLE = `text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.ground { fill: #fff }
.title { font-size: 14px; font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.grid { stroke: #d1d9e0 }
.axis { stroke: #59636e }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.c0 { stroke: #1a7f37; fill: #1a7f37 } .c1 { stroke: #cf222e; fill: #cf222e }
.c2 { stroke: #0969da; fill: #0969da } .c3 { stroke: #9a6700; fill: #9a6700 }
.line.c0, .line.c1, .line.c2, .line.c3 { fill: none }
.dashed { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.ground { fill: #0d1117 }
.small { fill: #9198a1 }
.grid { stroke: #3d444d }
.axis { stroke: #9198a1 }
.c0 { stroke: #3fb950; fill: #3fb950 } .c1 { stroke: #f85149; fill: #f85149 }
.c2 { stroke: #58a6ff; fill: #58a6ff } .c3 { stroke: #d29922; fill: #d29922 }
}`;

/** A number with as many places as a screen shows. */
export const px = (value) => String(Math.round(value * 10) / 10);

/** @param {string} title what those who do not see it are told */
export function page(title, width, height, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${title}</title>
<style>
${STYLE}
</style>
<rect width="100%" height="100%" class="ground"/>
${parts.flat(Infinity).join('\n')}
</svg>
`;
}

export function text(x, y, content, classes = '') {
  return `<text x="${px(x)}" y="${px(y)}"${classes && ` class="${classes}"`}>${content}</text>`;
}

export function line(x1, y1, x2, y2, classes) {
  return `<line x1="${px(x1)}" y1="${px(y1)}" x2="${px(x2)}" y2="${px(y2)}" class="${classes}"/>`;
}

export function bar(x, y, width, height, classes) {
  return `<rect x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" class="${classes}"/>`;
}

/**
 * Lines over two axes.
 *
 * @param {object} chart
 * @param {string} chart.title
 * @param {{ left: number, top: number, width: number, height: number }} chart.at
 * @param {{ most: number, step: number, unit?: string }} chart.x
 * @param {{ most: number, step: number }} chart.y
 * @param {{ name: string, colour: number, points: [number, number][], dashed?: boolean }[]} chart.series
 */
export function chart({ title, at: { left, top, width, height }, x, y, series }) {
  const toX = (value) => left + (value / x.most) * width;
  const toY = (value) => top + height - (value / y.most) * height;
  const parts = [text(left, top - 14, title, 'title')];
  for (let value = 0; value <= y.most; value += y.step) {
    parts.push(line(left, toY(value), left + width, toY(value), value === 0 ? 'axis' : 'grid'));
    parts.push(text(left - 8, toY(value) + 4, value.toLocaleString('en'), 'end'));
  }
  for (let value = 0; value <= x.most; value += x.step) {
    parts.push(text(toX(value), top + height + 18, `${value}${x.unit ?? ' s'}`, 'middle'));
  }
  for (const [index, { name, colour, points, dashed }] of series.entries()) {
    const path = points.map(([a, b]) => `${px(toX(a))},${px(toY(b))}`).join(' ');
    const classes = `line c${colour}${dashed ? ' dashed' : ''}`;
    parts.push(`<polyline points="${path}" class="${classes}"/>`);
    const below = top + height + 42 + index * 20;
    parts.push(line(left, below - 4, left + 20, below - 4, classes), text(left + 28, below, name));
  }
  return parts;
}

/** A value that changes at moments, as the corners of a stair. */
export function stair(points) {
  return points.flatMap(([x, y], index) => {
    const before = points[index - 1];
    return before === undefined || before[1] === y
      ? [[x, y]]
      : [
          [x, before[1]],
          [x, y],
        ];
  });
}

/** Writes a plot's file when its module is the one that Node was started with. */
export function writeIfMain(url, draw) {
  const file = fileURLToPath(url);
  if (process.argv[1] === undefined || realpathSync(process.argv[1]) !== file) return;
  writeFileSync(file.replace(/\.mjs$/, '.svg'), draw());
}
