/** Admitted and refused over time: stacked bars drawn in the pixels that there are, and the same as a table. */
export const PLOT: string = String.raw`
const HEIGHT = 152;
const TOP = 16;
const BOTTOM = 20;
let plots = 0;

/** The least of 2, 4, 10, 20, 40, 100 … that is not below a count. */
function roundedUp(most) {
  for (let power = 1; ; power *= 10) {
    for (const first of [2, 4, 10]) if (first * power >= most) return first * power;
  }
}

function hatch(id) {
  return shape('defs', {},
    shape('pattern', { id, width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
      shape('rect', { class: 'hatch', width: 5, height: 5 }),
      shape('line', { class: 'hatch-line', x1: 0, y1: 0, x2: 0, y2: 5 })));
}

/** The mark of a legend, like the bars. */
function swatch(kind) {
  const id = 'hatch-' + ++plots;
  const paint = kind === 'refused' ? { fill: 'url(#' + id + ')' } : { class: 'a' };
  return shape('svg', { class: 'swatch', viewBox: '0 0 12 12', 'aria-hidden': 'true' },
    ...(kind === 'refused' ? [hatch(id)] : []),
    shape('rect', { width: 12, height: 12, rx: 2, ...paint }));
}

function makePlot() {
  const id = 'hatch-' + ++plots;
  const lines = [0, 1, 2].map((each) => shape('line', { class: each === 0 ? 'line base' : 'line' }));
  const heights = [0, 1, 2].map(() => shape('text', { 'text-anchor': 'end' }));
  const times = ['start', 'middle', 'end'].map((anchor) => shape('text', { 'text-anchor': anchor }));
  // What was before this process counted is not known.
  const before = shape('rect', { class: 'before', y: TOP, height: HEIGHT - TOP - BOTTOM });
  const cursor = shape('rect', { class: 'cursor', y: TOP, height: HEIGHT - TOP - BOTTOM, visibility: 'hidden' });
  const admitted = shape('path', { class: 'admitted' });
  const refused = shape('path', { fill: 'url(#' + id + ')' });
  const svg = shape('svg', { role: 'img' }, hatch(id), before, ...lines, ...heights, ...times, cursor, admitted, refused);
  const none = element('p', { class: 'none' });
  const readout = element('p', { class: 'readout', 'aria-hidden': 'true' });
  const rows = element('tbody');
  const heads = ['Time', 'Admitted', 'Refused'].map((text) => element('th', { scope: 'col' }, text));
  const table = element('details', {},
    element('summary', {}, 'As a table'),
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Counts over time' },
      element('table', {}, element('thead', {}, element('tr', {}, ...heads)), rows)));
  const node = element('figure', {}, element('div', { class: 'plot' }, svg, none), readout, table);
  let shown;
  let pointed;

  function draw() {
    if (shown === undefined) return;
    const { counts, fromMs, sinceMs, stepMs, words } = shown;
    const steps = counts.admitted.length;
    const width = Math.max(200, Math.round(svg.getBoundingClientRect().width));
    const most = roundedUp(Math.max(...counts.admitted.map((each, i) => each + counts.refused[i])));
    const left = Math.max(20, count(most).length * 7 + 8);
    const base = HEIGHT - BOTTOM;
    const yOf = (value) => Math.round(base - (value / most) * (base - TOP));
    const xOf = (step) => Math.round(left + (step * (width - left)) / steps);
    svg.setAttribute('viewBox', '0 0 ' + width + ' ' + HEIGHT);
    [0, most / 2, most].forEach((value, i) => {
      const y = yOf(value) + 0.5;
      for (const [name, at] of [['x1', left], ['x2', width], ['y1', y], ['y2', y]]) lines[i].setAttribute(name, at);
      heights[i].setAttribute('x', left - 6);
      heights[i].setAttribute('y', y + 4);
      say(heights[i], count(value));
      const isShown = i === 0 || words.none === undefined;
      for (const each of [lines[i], heights[i]]) each.setAttribute('visibility', isShown ? 'visible' : 'hidden');
    });
    const endMs = fromMs + steps * stepMs;
    [[left, fromMs], [(left + width) / 2, (fromMs + endMs) / 2], [width, endMs]].forEach(([x, ms], i) => {
      times[i].setAttribute('x', x);
      times[i].setAttribute('y', HEIGHT - 4);
      say(times[i], stepMs < 60000 ? time(ms) : time(ms).slice(0, 5));
    });
    const known = Math.min(steps, Math.max(0, Math.floor((sinceMs - fromMs) / stepMs)));
    before.setAttribute('visibility', words.none === undefined ? 'visible' : 'hidden');
    before.setAttribute('x', left);
    before.setAttribute('width', xOf(known) - left);
    const gap = (width - left) / steps >= 3 ? 1 : 0;
    const bar = (step, low, high) => {
      if (high === low) return '';
      // What there is shows, however little it is beside the most.
      const y = Math.min(yOf(high), yOf(low) - 1);
      return 'M' + xOf(step) + ' ' + yOf(low) + 'V' + y + 'H' + (xOf(step + 1) - gap) + 'V' + yOf(low) + 'Z';
    };
    admitted.setAttribute('d', counts.admitted.map((each, i) => bar(i, 0, each)).join(''));
    refused.setAttribute('d', counts.refused.map((each, i) => bar(i, counts.admitted[i], counts.admitted[i] + each)).join(''));
    svg.setAttribute('aria-label', words.summary);
    cursor.setAttribute('visibility', pointed === undefined ? 'hidden' : 'visible');
    if (pointed !== undefined) {
      cursor.setAttribute('x', xOf(pointed));
      cursor.setAttribute('width', Math.max(1, xOf(pointed + 1) - xOf(pointed)));
    }
    say(readout, pointed === undefined ? words.caption
      : time(fromMs + pointed * stepMs) + ': ' + count(counts.admitted[pointed]) + ' admitted, ' + count(counts.refused[pointed]) + ' ' + words.refused);
    if (table.open) drawTable();
  }

  function drawTable() {
    const { counts, fromMs, stepMs, words } = shown;
    say(heads[2], words.refused.replace(/^./, (first) => first.toUpperCase()));
    const newest = counts.admitted.map((_, i) => counts.admitted.length - 1 - i);
    while (rows.rows.length < newest.length) {
      rows.append(element('tr', {}, element('th', { scope: 'row' }), element('td'), element('td')));
    }
    newest.forEach((step, i) => {
      const [at, passed, turned] = rows.rows[i].children;
      say(at, instant(fromMs + step * stepMs));
      say(passed, count(counts.admitted[step]));
      say(turned, count(counts.refused[step]));
    });
  }

  svg.addEventListener('pointermove', (event) => {
    if (shown === undefined) return;
    const box = svg.getBoundingClientRect();
    const left = Number(lines[0].getAttribute('x1'));
    const steps = shown.counts.admitted.length;
    const step = Math.floor(((event.clientX - box.left - left) / (box.width - left)) * steps);
    pointed = step >= 0 && step < steps ? step : undefined;
    draw();
  });
  svg.addEventListener('pointerleave', () => {
    pointed = undefined;
    draw();
  });
  table.addEventListener('toggle', draw);
  new ResizeObserver(draw).observe(svg);

  return {
    node,
    update(next) {
      shown = next;
      none.hidden = next.words.none === undefined;
      say(none, next.words.none || '');
      draw();
    },
  };
}
`;
