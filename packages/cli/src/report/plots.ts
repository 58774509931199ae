import type { ComparedAlgorithm, RefusedKey, Timelines } from '../replay/report.ts';
import { escape } from './escape.ts';
import { cut, printable } from './printable.ts';
import { algorithmText, count, duration, instant, percent, policyText, span } from './words.ts';

const HEIGHT = 100;
const LONGEST_KEY = 80;

/** A text from a log, safe to see and to hold. */
function safe(text: string): string {
  return escape(cut(printable(text), LONGEST_KEY));
}

/**
 * Admitted and refused requests over time, stacked. The drawing stretches to any width; what is written beside it is
 * HTML, so that it stays as large as other text.
 */
export function timePlot(
  title: string,
  { fromMs, bucketMs }: Timelines,
  admitted: readonly number[],
  refused: readonly number[],
): string {
  const most = Math.max(1, ...admitted.map((each, i) => each + (refused[i] ?? 0)));
  const bars = admitted.map((passed, i) => {
    const turned = refused[i] ?? 0;
    if (passed + turned === 0) return '';
    const up = (passed / most) * HEIGHT;
    const down = (turned / most) * HEIGHT;
    const hint = `${instant(fromMs + i * bucketMs)}: ${count(passed)} admitted, ${count(turned)} refused`;
    return (
      `<g><title>${hint}</title><rect class="hit" x="${i}" y="0" width="1" height="${HEIGHT}"/>` +
      bar('admitted', i, HEIGHT - up, up) +
      bar('refused', i, HEIGHT - up - down, down) +
      '</g>'
    );
  });
  const end = fromMs + admitted.length * bucketMs;
  return `<figure class="time">
<figcaption>${escape(title)} <span class="quiet">per ${duration(bucketMs)}</span></figcaption>
<div class="legend"><span class="key admitted">admitted</span> <span class="key refused">refused</span></div>
<div class="plot"><span class="most">${count(most)}</span>
<svg viewBox="0 0 ${Math.max(1, admitted.length)} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${escape(title)}: ${count(sum(admitted))} admitted and ${count(sum(refused))} refused over time">${bars.join('')}</svg></div>
<div class="axis"><span>${instant(fromMs)}</span><span>${instant(end)} UTC</span></div>
</figure>`;
}

function bar(kind: string, x: number, y: number, height: number): string {
  if (height === 0) return '';
  return `<rect class="${kind}" x="${x}" y="${y.toFixed(2)}" width="1" height="${height.toFixed(2)}"/>`;
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, each) => total + each, 0);
}

interface Row {
  /** HTML. */
  readonly label: string;
  /** HTML. */
  readonly value: string;
  readonly size: number;
}

/** One bar below another, each with its label and value in text. */
function bars(caption: string, rows: readonly Row[]): string {
  const most = Math.max(1, ...rows.map(({ size }) => size));
  const items = rows.map(
    ({
      label,
      value,
      size,
    }) => `<li><span class="label">${label}</span><span class="value">${value}</span>
<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="refused" x="0" y="0" width="${((size / most) * 100).toFixed(2)}" height="1"/></svg></li>`,
  );
  return `<figure><figcaption>${escape(caption)}</figcaption><ol class="bars">${items.join('\n')}</ol></figure>`;
}

export function keyPlot(top: readonly RefusedKey[], isExact: boolean): string {
  const caption = isExact ? 'Most refused keys' : 'Most refused keys, at most so often';
  return bars(
    caption,
    top.map(({ key, refused, atLeast, firstMs, lastMs }) => ({
      label: `<code>${safe(key)}</code>`,
      value: `${count(refused)}${refused === atLeast ? '' : ` ±${count(refused - atLeast)}`} <span class="quiet">${span(firstMs, lastMs)}</span>`,
      size: refused,
    })),
  );
}

export function algorithmPlot(algorithms: readonly ComparedAlgorithm[]): string {
  return bars(
    'The same numbers as other algorithms, this limit alone',
    algorithms.map(({ algorithm, policy, problem, refused = 0, refusedShare = 0 }) => ({
      label: escape(policy === undefined ? algorithmText(algorithm) : policyText(policy)),
      value: escape(problem ?? `${count(refused)} refused (${percent(refusedShare)})`),
      size: refused,
    })),
  );
}
