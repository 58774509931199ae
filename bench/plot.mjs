// Bars with their spread, drawn as SVG: one panel for each number, one bar for each subject.
import { figure } from './samples.mjs';

const WIDTH = 720;
const NAMES = 250;
const VALUES = 150;
const BAR = 16;
const STEP = 22;
const TITLE = 34;
const BARS = WIDTH - NAMES - VALUES;

/** Ours stand out; floors are what nobody can be below. */
function colourOf(name) {
  if (name.startsWith('Tollgate')) return '#1e8449';
  return /^(?:floor|bare)/.test(name) ? '#b2babb' : '#2471a3';
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

function bar({ name, numbers }, most, top) {
  const { median, low, high } = numbers;
  const x = (value) => (NAMES + (value / most) * BARS).toFixed(1);
  const middle = top + BAR / 2;
  const spread =
    low === high
      ? ''
      : `<path d="M${x(low)} ${middle}H${x(high)}" stroke="#333" stroke-width="2"/>`;
  return `<text x="${NAMES - 8}" y="${top + 12}" class="end">${escaped(name)}</text>
<rect x="${NAMES}" y="${top}" width="${((Math.max(0, median) / most) * BARS).toFixed(1)}" height="${BAR}" fill="${colourOf(name)}"/>${spread}
<text x="${Number(x(Math.max(0, high))) + 8}" y="${top + 12}">${figure(median)}${low === high ? '' : ` (${figure(low)}–${figure(high)})`}</text>`;
}

/**
 * @param {string} title said to those who do not see the picture
 * @param {{ title: string, bars: { name: string, numbers?: { median: number, low: number, high: number } }[] }[]} panels
 * what was not measured is left out
 */
export function plot(title, panels) {
  let top = 8;
  const parts = [];
  for (const panel of panels) {
    const bars = panel.bars.filter(({ numbers }) => numbers !== undefined);
    if (bars.length === 0) continue;
    const most = Math.max(...bars.map(({ numbers }) => numbers.high)) || 1;
    parts.push(`<text x="8" y="${top + 18}" class="title">${escaped(panel.title)}</text>`);
    top += TITLE;
    for (const each of bars) {
      parts.push(bar(each, most, top));
      top += STEP;
    }
    top += 12;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top}" viewBox="0 0 ${WIDTH} ${top}" role="img">
<title>${escaped(title)}</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-size: 14px; font-weight: 600 }
.end { text-anchor: end }
</style>
<rect width="100%" height="100%" fill="#fff"/>
${parts.join('\n')}
</svg>
`;
}
