// The same traffic through every algorithm, each set to ten requests in ten seconds: `node docs/plots/algorithms.mjs`.
import { concurrency, createLimiter, fixedWindow, leakyBucket, memoryStore } from '@tollgate/core';
import { slidingLog, slidingWindow, tokenBucket } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { bar, line, page, text, writeIfMain } from './svg.mjs';

/** A window ends at each multiple of ten seconds. */
const SECONDS = 42;
const SPAN = 10;
/** How long a request is served, which only the concurrency limit looks at. */
const SERVING = 1;

const POLICIES = {
  'tokenBucket({ capacity: 10, rate: 1, per: "1s" })': tokenBucket({
    capacity: 10,
    rate: 1,
    per: '1s',
  }),
  'fixedWindow({ limit: 10, window: "10s" })': fixedWindow({ limit: 10, window: '10s' }),
  'slidingWindow({ limit: 10, window: "10s" })': slidingWindow({ limit: 10, window: '10s' }),
  'slidingLog({ limit: 10, window: "10s" })': slidingLog({ limit: 10, window: '10s' }),
  'leakyBucket({ capacity: 10, rate: 1, per: "1s" })': leakyBucket({
    capacity: 10,
    rate: 1,
    per: '1s',
  }),
  'concurrency({ limit: 3 }), each request taking a second': concurrency({ limit: 3 }),
};

/** When requests come, in milliseconds: three bursts of twelve, of which two are around the end of a window; then three a second. */
function arrivals() {
  const burst = (seconds) => Array.from({ length: 12 }, (_, index) => seconds * 1_000 + index * 20);
  const steady = Array.from({ length: 30 }, (_, index) => 25_000 + Math.round((index * 1_000) / 3));
  return [2_000, 4_000, 6_000, ...burst(9.3), ...burst(10.3), ...burst(18.4), ...steady];
}

/** What becomes of them: when they are served, and when refused, in seconds. */
export function outcomes(policy) {
  const clock = manualClock();
  const start = clock() / 1_000;
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [{ name: 'api', policy }],
  });
  const served = [];
  const refused = [];
  let open = [];
  for (const at of arrivals()) {
    for (const { until, decision } of open) if (until <= at) decision.release();
    open = open.filter(({ until }) => until > at);
    clock.set(start + at);
    const decision = limiter.consume({ api: 'key' });
    if (!decision.allowed) {
      refused.push(at / 1_000);
      continue;
    }
    served.push((at + decision.delayMs) / 1_000);
    open.push({ until: at + SERVING * 1_000, decision });
  }
  limiter.close();
  return { served, refused };
}

/** The most that are served in any ten seconds. */
export function mostInSpan(served) {
  return Math.max(
    ...served.map((from) => served.filter((at) => at >= from && at < from + SPAN).length),
  );
}

const LEFT = 24;
const WIDTH = 620;
const ROW = 104;
const TOP = 84;
const UNIT = 4;
const BIN = 0.5;

function row(title, policy, top) {
  const { served, refused } = outcomes(policy);
  const base = top + 62;
  const toX = (seconds) => LEFT + (seconds / SECONDS) * WIDTH;
  const width = (BIN / SECONDS) * WIDTH - 1.5;
  const parts = [text(LEFT, top, title)];
  for (let at = SPAN; at < SECONDS; at += SPAN) {
    parts.push(line(toX(at), top + 10, toX(at), base + 22, 'grid'));
  }
  for (let from = 0; from < SECONDS; from += BIN) {
    const count = (moments) => moments.filter((at) => at >= from && at < from + BIN).length;
    const up = count(served) * UNIT;
    // Half as high, since of some there are very many.
    const down = (count(refused) * UNIT) / 2;
    if (up > 0) parts.push(bar(toX(from), base - up, width, up, 'c0'));
    if (down > 0) parts.push(bar(toX(from), base, width, down, 'c1'));
  }
  parts.push(line(LEFT, base, LEFT + WIDTH, base, 'axis'));
  parts.push(text(LEFT + WIDTH + 16, base - 22, `${served.length} served`));
  parts.push(text(LEFT + WIDTH + 16, base - 5, `most in 10 s: ${mostInSpan(served)}`));
  return parts;
}

export function draw() {
  const rows = Object.entries(POLICIES);
  const height = TOP + rows.length * ROW + 8;
  const below = TOP + rows.length * ROW - 10;
  const seconds = [0, 10, 20, 30, 40].map((at) =>
    text(LEFT + (at / SECONDS) * WIDTH, below, `${at} s`, at === 0 ? '' : 'middle'),
  );
  return page(
    'The same 69 requests through six algorithms: which are served when, and which are refused',
    800,
    height,
    [
      text(LEFT, 28, 'The same 69 requests, and ten allowed in ten seconds', 'title'),
      bar(LEFT, 40, 12, 12, 'c0'),
      text(LEFT + 18, 50, 'served (a leaky bucket: when they leave)'),
      bar(LEFT + 290, 40, 12, 12, 'c1'),
      text(LEFT + 308, 50, 'refused (drawn half as high)'),
      rows.map(([title, policy], index) => row(title, policy, TOP + index * ROW)),
      seconds,
    ],
  );
}

writeIfMain(import.meta.url, draw);
