// A budget of tokens whose users reserve what an answer may take, with and without settling for what it took:
// `node docs/plots/llm-budgets.mjs`.
import { createLimiter, memoryStore, tokenBucket } from '@tollgate/core';
import { manualClock } from '@tollgate/core/testing';
import { chart, page, stair, writeIfMain } from './svg.mjs';

const SECONDS = 120;
const RESERVED = 1_000;
const ANSWERING_MS = 4_000;
const policy = tokenBucket({ capacity: 10_000, rate: 10_000, per: '1m' });

/** What answers take: of a thousand reserved a few hundred, now and then more than was reserved. */
const USED = [240, 310, 180, 1_250, 90, 420, 260, 700];

/** A request a second; each settles when its answer has ended, if it settles. */
function run(settles) {
  const clock = manualClock();
  const start = clock() / 1_000;
  const limiter = createLimiter({
    store: memoryStore({ clock }),
    limits: [{ name: 'tokens', policy }],
  });
  const points = [];
  let open = [];
  let served = 0;
  for (let second = 0; second <= SECONDS; second++) {
    clock.set(start + second * 1_000);
    for (const { until, decision, used } of open) {
      if (until <= second * 1_000) decision.settle(used);
    }
    open = open.filter(({ until }) => until > second * 1_000);
    const decision = limiter.consume({ tokens: 'acme' }, { cost: RESERVED });
    if (decision.allowed) {
      const used = USED[served++ % USED.length];
      if (settles) open.push({ until: second * 1_000 + ANSWERING_MS, decision, used });
    }
    points.push([second, limiter.peek({ tokens: 'acme' }).remaining]);
  }
  limiter.close();
  return { points: stair(points), served };
}

export function draw() {
  const settled = run(true);
  const kept = run(false);
  return page('A budget of tokens with and without settling', 640, 330, [
    chart({
      title: 'Left of 10,000 tokens a minute; each request reserves 1,000',
      at: { left: 64, top: 48, width: 548, height: 200 },
      x: { most: SECONDS, step: 20 },
      y: { most: 10_000, step: 2_000 },
      series: [
        {
          name: `settled for what was used: ${settled.served} of ${SECONDS + 1} served`,
          colour: 0,
          points: settled.points,
        },
        { name: `reservations kept: ${kept.served} served`, colour: 1, points: kept.points },
      ],
    }),
  ]);
}

writeIfMain(import.meta.url, draw);
